import { join } from 'node:path';
import { expect } from 'chai';
import type { SourceFormat } from '#src/domain/documents/formats.ts';
import type { ConvertedDocument } from '#src/ports/documents.ts';
import { needsPdfium, realDocuments, useConverter } from '#test/support/converter-environment.ts';

type ReadableFile = [string, SourceFormat, number[] | null, string, ...string[]];

/** File, format, pages of a sentence, the sentence, and further expected lines such as table rows. */
const readable: ReadableFile[] = [
  ['norwich-city.txt', 'text', null, 'Norwich'],
  ['fake-text-utf-16.txt', 'text', null, 'Hamburgers are delicious'],
  ['factbook.xml', 'code', null, '<name>Trinidad &amp; Tobado</name>'],
  ['test_blog.html', 'html', null, 'tuning the inference parameters like model', '## Experiment Setup'],
  ['test_serp.html', 'html', null, 'product line of proprietary graphical operating systems'],
  ['test_wikipedia.html', 'html', null, 'headquartered in Redmond, Washington', '| ISIN | US5949181045 |'],
  ['test_rss.xml', 'html', null, 'Two things can be true at the same time.', '2024-11-19, Frank X. Shaw'],
  ['csv-with-escaped-commas.csv', 'csv', null, 'A,A', '| A | A | A | A,A | A |'],
  ['test_mskanji.csv', 'csv', null, '髙橋淳', '| 髙橋淳 | 35 | 名古屋 |'],
  ['test.json', 'json', null, '5b64c88c-b3c3-4510-bcb8-da0b200602d8: uuid_key'],
  ['test_notebook.ipynb', 'json', null, '```python\nprint("markitdown")\n```'],
  ['test.pdf', 'pdf', [1], 'There are at least three reasons confirming its general feasibility'],
  ['DA-1p.pdf', 'pdf', [1], 'a home on the edge of the town exploded, sending splinters of wood and', '# MAIN GAME'],
  ['RECEIPT-2024-TXN-98765_retail_purchase.pdf', 'pdf', [1], 'SUBTOTAL $863.91', 'Points Earned: 821'],
  ['REPAIR-2022-INV-001_multipage.pdf', 'pdf', [1, 3], 'until an alignment on the vehicle', 'Body Labor 2 150 300'],
  ['SPARSE-2024-INV-1234_borderless_table.pdf', 'pdf', [2], 'SKU-9201 Hardware $32.50 $25,285.00 2024-10-22 Verified'],
  ['copy-protected.pdf', 'pdf', [1], 'improve reusability and simplify', '# LayoutParser: A Unified Toolkit'],
  ['masterformat_partial_numbering.pdf', 'pdf', [1], 'document, from qualified Construction Managers'],
  ['movie-theater-booking-2024.pdf', 'pdf', [1], 'December 2024 48 $12,500.00 $11,250.00 85%'],
  ['fake-memo-with-duplicate-page.pdf', 'pdf', [1, 2], 'Best Regards,\nMallori'],
  [
    'MEDRPT-2024-PAT-3847_medical_report_scan.pdf',
    'pdf',
    [1],
    'Oxygen Saturation 97% 95-100% NORMAL',
    '6 weeks, rated 6-7/10 in severity. Associated symptoms include occasional dizziness,',
    '2. Metformin 500mg - twice daily for diabetes',
  ],
  ['test_llm.jpg', 'image', [1], 'be sure to mention the string "5bda1dd6"'],
  ['test.docx', 'docx', null, '314b0a30-5b04-470b-b9f7-eed2c2bec74a', '# Introduction', '| 7 | 8 | 9 | 10 | 11 | 12 |'],
  ['docx-tables.docx', 'docx', null, 'Lorem ipsum', '| d | e, f; g&t, h | i |', '| a | b |  |\n| --- | --- | --- |'],
  ['equations.docx', 'docx', null, 'From Eq. 36.1.3,', '$sin θ=\\frac{mλ}{a}'],
  ['handbook-1p.docx', 'docx', null, 'monitors and supervises cases under chapter 13 of title 11'],
  ['rlink.docx', 'docx', null, 'A red and blue square'],
  ['test_with_comment.docx', 'docx', null, '> Comment by Unknown Author: This is a test comment. 12df-321a'],
  ['fake.doc', 'doc', null, 'Lorem ipsum dolor sit amet.'],
  ['fake.odt', 'odt', null, 'Lorem ipsum dolor sit amet.', '| Header row | Mon | Wed | Fri |', '| Leader | Sarah |'],
  ['test.rtf', 'rtf', null, 'It is included to test', '# This is a Sample RTF File\n\n'],
  ['test.pptx', 'pptx', [2], 'AutoGen agents are customizable', '| 7 | 8 | 9 | 1b92870d-e3b5-4e65-8153-919f4ff45592 |'],
  ['fake-power-point-malformed.pptx', 'pptx', [1], '## Test Slide'],
  ['fake-power-point-many-pages.pptx', 'pptx', [2], '## Page 2'],
  ['test.xlsx', 'xlsx', [1], '6ff4173b-42a5-4784-9b19-f49caff4d93d', '## Sheet1\n\n| Alpha | Beta | Gamma | Delta |'],
  ['test.xls', 'xls', [2], 'affc7dad-52dc-4b98-9b5d-51e65d8a8ad0', '## Sheet1\n\n| Alpha | Beta | Gamma | Delta |'],
  ['test.epub', 'epub', null, '# Chapter 1: Test Content', '- A bullet point\n- Another point', '# Chapter 2'],
  ['email-no-html-content-1.eml', 'eml', null, 'you’ve automatically started watching', 'From: GitHub <email@domain'],
  ['fake-email-attachment.eml', 'eml', null, '- Little to no content', '- fake-attachment.txt (1 KiB)'],
  ['fake-email-utf-16.eml', 'eml', null, '- Violets are blue', '# Test Email'],
  ['mime-different-plain-html.eml', 'eml', null, 'This is the text/html part.', 'Date: 2024-10-01 17:34 UTC'],
  ['test_outlook_msg.msg', 'msg', null, 'This is the body of the test email message', '# Test Email Message'],
];

describe('the converter, on real documents,', () => {
  const environment = useConverter();
  for (const [file, format, pages, sentence, ...alsoThere] of readable) {
    it(`reads ${file} as ${format}${pages ? ` and finds a sentence on page ${pages.join(' and ')}` : ''}`, async function () {
      if (format === 'pdf') needsPdfium(this);
      const document = await environment.convertPath(join(realDocuments(this), file));
      expect(document).include({ sourceFormat: format });
      for (const text of [sentence, ...alsoThere]) expect(document.body).contain(text);
      expect(pagesOf(document, sentence)).deep.equal(pages);
    });
  }
});

/** Numbers of the pages that contain the text; null for a document without pages. */
function pagesOf({ body, pageMap }: ConvertedDocument, text: string): number[] | null {
  if (pageMap === null) return null;
  const pages = pageMap.map((start, index) => body.slice(start, pageMap[index + 1]));
  return pages.flatMap((page, index) => (page.includes(text) ? [index + 1] : []));
}
