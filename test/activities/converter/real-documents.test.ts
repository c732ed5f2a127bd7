import { join } from 'node:path';
import { expect } from 'chai';
import { AppError } from '#src/errors.ts';
import {
  type ConverterEnvironment,
  createConverterEnvironment,
  needsPdfium,
  realDocuments,
} from '#test/support/converter-environment.ts';

/** Phrases that a reader sees side by side, by file. */
const phrases: Record<string, string[]> = {
  'csv-with-escaped-commas.csv': ['A,A'],
  'docx-tables.docx': [
    '| Header Col 1 | Header Col 2 |',
    '| d | e, f; g&t, h | i |',
    '| a | b |  |\n| --- | --- | --- |',
  ],
  'email-no-html-content-1.eml': ['From: GitHub <email@domain.com>', 'you’ve automatically started watching'],
  'fake-email-attachment.eml': ['- Little to no content', '- fake-attachment.txt (1 KiB)'],
  'fake-email-utf-16.eml': ['# Test Email', '- Violets are blue'],
  'equations.docx': ['$sin θ=\\frac{mλ}{a}', 'From Eq. 36.1.3,'],
  'fake-power-point-malformed.pptx': ['## Test Slide'],
  'fake-power-point-many-pages.pptx': ['## Page 1\n\n## Page 2'],
  'fake-text-utf-16.txt': ['Hamburgers are delicious'],
  'fake.doc': ['Lorem ipsum dolor sit amet.'],
  'fake.odt': ['| Header row | Mon | Wed | Fri |', '| Leader | Sarah | Mark | Ryan |'],
  'handbook-1p.docx': ['monitors and supervises cases under chapter 13 of title 11'],
  'norwich-city.txt': ['Norwich'],
  'test.docx': ['# Introduction', '314b0a30-5b04-470b-b9f7-eed2c2bec74a'],
  'test.epub': ['# Chapter 1: Test Content', '- A bullet point\n- Another point', '# Chapter 2: More Content'],
  'test.json': ['5b64c88c-b3c3-4510-bcb8-da0b200602d8: uuid_key'],
  'test.pptx': [
    '| 7 | 8 | 9 | 1b92870d-e3b5-4e65-8153-919f4ff45592 | 11 | 12 |',
    '## A chart to test parsing:\n\na3f6004b-6f4f-4ea8-bee3-3741f4dc385f\n\n|  | Series 1 |',
    '- Comment 2:\n  - Sub comment 2',
    '44bf7d06-5e7a-4a40-a2e1-a2e42ef28c8a',
  ],
  'test.rtf': ['# This is a Sample RTF File\n\nIt is included to test'],
  'test.xls': ['## Sheet1\n\n| Alpha | Beta | Gamma | Delta |', 'affc7dad-52dc-4b98-9b5d-51e65d8a8ad0'],
  'test.xlsx': ['## Sheet1\n\n| Alpha | Beta | Gamma | Delta |', '6ff4173b-42a5-4784-9b19-f49caff4d93d'],
  'test_blog.html': ['## Experiment Setup', 'tuning the inference parameters like model'],
  'test_mskanji.csv': ['| 髙橋淳 | 35 | 名古屋 |'],
  'test_notebook.ipynb': ['```python\nprint("markitdown")\n```'],
  'test_outlook_msg.msg': ['# Test Email Message', 'This is the body of the test email message'],
  'test_serp.html': ['product line of proprietary graphical operating systems'],
  'test_with_comment.docx': ['> Comment by Unknown Author: This is a test comment. 12df-321a'],
  'test_wikipedia.html': ['| ISIN | US5949181045 |', 'headquartered in Redmond, Washington'],
};

const pdfPhrases: Record<string, string[]> = {
  'DA-1p.pdf': [
    '# MAIN GAME',
    'As we approached, a home on the edge of the town exploded, sending splinters of wood and',
  ],
  'RECEIPT-2024-TXN-98765_retail_purchase.pdf': ['SUBTOTAL $863.91', 'Points Earned: 821'],
  'REPAIR-2022-INV-001_multipage.pdf': ['Body Labor 2 150 300', 'until an alignment on the vehicle has been done'],
  'SPARSE-2024-INV-1234_borderless_table.pdf': [
    'SKU-9201 Hardware $32.50 $25,285.00 2024-10-22 Verified',
    'Cross-location verification protocols should be reviewed to prevent',
  ],
  'copy-protected.pdf': [
    'A Unified Toolkit for Deep Learning Based Document Image Analysis',
    'improve reusability and simplify',
  ],
  'masterformat_partial_numbering.pdf': [
    'in the format detailed in this document, from qualified Construction Managers',
  ],
  'movie-theater-booking-2024.pdf': ['December 2024 48 $12,500.00 $11,250.00 85%'],
  'test.pdf': ['There are at least three reasons confirming its general feasibility'],
};

const failures: Record<string, string> = {
  'empty.eml': 'empty_document',
  'empty.txt': 'empty_document',
  'fake-encrypted.msg': 'encrypted_document',
  'password_protected.xlsx': 'encrypted_document',
  'random.bin': 'unsupported_format',
};

describe('converting real documents', function () {
  // Parsers are processes: on a busy machine a handful of starts takes long.
  this.timeout(60_000);
  let environment: ConverterEnvironment;
  before(async () => {
    environment = await createConverterEnvironment();
  });
  after(() => environment.remove());

  async function expectPhrases(folder: string, expected: Record<string, string[]>): Promise<void> {
    const reads = Object.entries(expected).map(async ([fileName, wanted]) => {
      const { body, pageMap } = await environment.convertPath(join(folder, fileName));
      for (const phrase of wanted) expect(body, fileName).to.contain(phrase);
      if (pageMap) expect(pageMap, fileName).to.eql([...pageMap].sort((a, b) => a - b));
    });
    await Promise.all(reads);
  }

  it('finds what a reader finds in text, tables, pages and Word files', async function () {
    await expectPhrases(realDocuments(this), phrases);
  });

  it('finds what a reader finds in PDF files', async function () {
    needsPdfium(this);
    await expectPhrases(realDocuments(this), pdfPhrases);
  });

  it('refuses the others with a reason', async function () {
    const folder = realDocuments(this);
    for (const [fileName, code] of Object.entries(failures)) {
      const error = await environment.convertPath(join(folder, fileName)).catch((reason: unknown) => reason);
      expect(error, fileName).to.be.instanceOf(AppError).and.to.include({ code });
    }
  });
});
