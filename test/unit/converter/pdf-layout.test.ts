import { expect } from 'chai';
import { type PdfPage, pdfPageMessageSchema, pdfPagesToMarkdown } from '#src/adapters/converter/formats/pdf-layout.ts';

type Draft = { text: string; y: number; x?: number; width?: number; size?: number; bold?: boolean; gap?: number };

/** A page as the PDF process describes it; a line is as wide as its text unless it says otherwise. */
function page(...drafts: Draft[]): PdfPage {
  const lines = drafts.map(
    ({ text, y, x = 50, size = 10, width = text.length * size * 0.5, bold = false, gap = 0 }) => [
      text,
      x,
      x + width,
      y,
      size,
      bold,
      gap,
    ],
  );
  return pdfPageMessageSchema.parse({ lines, isPicture: false });
}

const full = 480;

describe('pdfPagesToMarkdown', () => {
  it('joins the lines of a paragraph and separates paragraphs', async () => {
    const { body } = await pdfPagesToMarkdown([
      page(
        { text: 'The first sentence is long enough to', y: 700, width: full },
        { text: 'wrap. The second one ends here.', y: 688 },
        { text: 'Another paragraph stands apart and also', y: 664, width: full },
        { text: 'Wraps before a capital.', y: 652 },
      ),
    ]);
    expect(body).to.equal(
      'The first sentence is long enough to wrap. The second one ends here.\n\nAnother paragraph stands apart and also Wraps before a capital.',
    );
  });

  it('keeps short lines, list items and table rows on separate lines', async () => {
    const { body } = await pdfPagesToMarkdown([
      page(
        { text: 'Report: 17', y: 700 },
        { text: 'Date: 2024-11-15', y: 688 },
        { text: 'This line shows how far the text of the page reaches', y: 676, width: full },
        { text: '• first item', y: 664 },
        { text: '• second item', y: 652 },
        { text: 'Code Amount', y: 620, gap: 80 },
        { text: 'A-12 450', y: 600, gap: 90 },
      ),
    ]);
    expect(body).to.equal(
      'Report: 17\nDate: 2024-11-15\nThis line shows how far the text of the page reaches\n- first item\n- second item\n\nCode Amount\nA-12 450',
    );
  });

  it('recognizes headings by font size and weight', async () => {
    const { body } = await pdfPagesToMarkdown([
      page(
        { text: 'A title over', y: 760, size: 20 },
        { text: 'two lines', y: 736, size: 20 },
        { text: 'Part one', y: 700, size: 14 },
        { text: 'Findings', y: 670, bold: true },
        { text: 'What the body says about it, at some length.', y: 655 },
      ),
    ]);
    expect(body).to.equal(
      '# A title over two lines\n\n## Part one\n\n### Findings\n\nWhat the body says about it, at some length.',
    );
  });

  it("joins hyphenated words as the document's other words suggest", async () => {
    const { body } = await pdfPagesToMarkdown([
      page(
        { text: 'A well-known word, a conversation and what is centric; we are con\ufffe', y: 700, width: full },
        { text: 'firming that a well\ufffe', y: 688, width: full },
        { text: 'known thing is conversation\ufffe', y: 676, width: full },
        { text: 'centric since COVID-', y: 664, width: full },
        { text: '19 began.', y: 652 },
      ),
    ]);
    expect(body).to.contain('confirming that a well-known thing is conversation-centric since COVID-19 began.');
  });

  it('maps pages and joins a sentence across a page break', async () => {
    const { body, pageMap } = await pdfPagesToMarkdown([
      page({ text: 'The verification protocols should be', y: 60, width: full }),
      page(),
      page({ text: 'reviewed to prevent discrepancies.', y: 700 }),
    ]);
    expect(body).to.equal('The verification protocols should be reviewed to prevent discrepancies.');
    expect(pageMap).to.eql([0, 36, 37]);
    expect(body.slice(pageMap[2])).to.equal('reviewed to prevent discrepancies.');
  });

  it('keeps running headers and page numbers once', async () => {
    const pages = [1, 2, 3, 4, 5].map((number) =>
      page(
        { text: 'ACME Annual Report', y: 780 },
        { text: `Chapter text number ${'abcde'[number - 1]} of the report.`, y: 700 },
        { text: `Page ${number} of 5`, y: 30 },
      ),
    );
    const { body } = await pdfPagesToMarkdown(pages);
    expect(body.match(/ACME/g)).to.have.length(1);
    expect(body.match(/Page \d/g)).to.have.length(1);
    expect(body.match(/Chapter text/g)).to.have.length(5);
  });

  it('keeps lines at the page edge whose numbers are data', async () => {
    const balances = ['1,204.10', '980.00', '3,377.45', '12.00', '771.90', '640.25'];
    const pages = balances.map((balance, index) =>
      page(
        { text: `Statement of account, month ${index + 1} of 2025`, y: 780 },
        { text: `Bookings of ${'abcdef'[index]} kind.`, y: 400 },
        { text: `Closing balance: ${balance} EUR`, y: 60 },
        { text: String(index + 1), y: 30 },
      ),
    );
    const { body } = await pdfPagesToMarkdown(pages);
    for (const balance of balances) expect(body).to.contain(`Closing balance: ${balance} EUR`);
    expect(body.match(/month \d of 2025/g)).to.have.length(6);
    expect(body).not.to.match(/^[2-6]$/m);
  });

  it('joins superscripts to their line and puts vertical margin text first', async () => {
    const { body } = await pdfPagesToMarkdown([
      page(
        { text: 'Ruochen Zhang', y: 700, width: 60 },
        { text: '2', y: 703, x: 110, width: 4, size: 7 },
        { text: ', Melissa Dell', y: 700, x: 114 },
        { text: 'stamp', y: 300, size: 0 },
      ),
    ]);
    expect(body).to.equal('stamp\n\nRuochen Zhang2, Melissa Dell');
  });
});
