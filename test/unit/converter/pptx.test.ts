import { expect } from 'chai';
import { parsePptx } from '#src/adapters/converter/formats/pptx.ts';
import { zipFile } from '#test/support/document-fixtures.ts';
import { officeNames, relationshipsPart, titlePart } from '#test/support/office-fixtures.ts';

type Slide = { shapes: string; isHidden?: boolean; related?: Record<string, [string, string]> };

/** Slides by the names of their parts, shown in the order of their keys; parts lie in the order of their names. */
async function pagesOf(slides: Record<string, Slide>, parts: Record<string, string> = {}) {
  const names = Object.keys(slides);
  const show = names.map((_, index) => `<p:sldId r:id="s${index}"/>`).join('');
  const bytes = zipFile({
    '_rels/.rels': relationshipsPart({ r1: ['officeDocument', 'ppt/presentation.xml'] }),
    'ppt/presentation.xml': `<p:presentation ${officeNames}><p:sldIdLst>${show}</p:sldIdLst></p:presentation>`,
    'ppt/_rels/presentation.xml.rels': relationshipsPart(
      Object.fromEntries(names.map((name, index) => [`s${index}`, ['slide', `slides/${name}.xml`]])),
    ),
    ...Object.fromEntries(
      Object.entries(slides).flatMap(([name, { shapes, isHidden, related = {} }]) => [
        [
          `ppt/slides/${name}.xml`,
          `<p:sld ${officeNames}${isHidden ? ' show="0"' : ''}><p:cSld><p:spTree>${shapes}</p:spTree></p:cSld></p:sld>`,
        ],
        [`ppt/slides/_rels/${name}.xml.rels`, relationshipsPart(related)],
      ]),
    ),
    ...parts,
  });
  return parsePptx({ bytes, fileName: 'a.pptx' });
}

const line = (text: string, properties = '', level = 0) =>
  `<a:p><a:pPr lvl="${level}">${properties}</a:pPr><a:r><a:t>${text}</a:t></a:r></a:p>`;
const shape = (placeholder: string, ...lines: string[]) =>
  `<p:sp><p:nvSpPr><p:cNvPr id="1"/><p:nvPr>${placeholder}</p:nvPr></p:nvSpPr><p:txBody>${lines.join('')}</p:txBody></p:sp>`;
const title = (text: string) => shape('<p:ph type="title"/>', line(text));
const content = '<p:ph idx="1"/>';

describe('parsePptx', () => {
  it('returns a page for each slide in show order and marks hidden slides', async () => {
    const { body, title: name } = await pagesOf({
      slide2: { shapes: title('Welcome') },
      slide3: { shapes: shape('', line('No title')), isHidden: true },
      slide4: { shapes: '' },
      slide1: { shapes: shape('', line('Bye')) + title('Thanks') + shape('<p:ph type="sldNum"/>', line('4')) },
    });
    expect(body).to.eql(['## Welcome', '## Slide 2 (hidden slide)\n\nNo title', '', '## Thanks\n\nBye']);
    expect(name).to.equal('Welcome');
  });

  it('reads a slide once if the show lists it twice', async () => {
    const again = {
      'ppt/_rels/presentation.xml.rels': relationshipsPart({
        s0: ['slide', 'slides/slide1.xml'],
        s1: ['slide', 'slides/slide1.xml'],
      }),
    };
    const { body } = await pagesOf({ slide1: { shapes: title('One') }, slide2: { shapes: '' } }, again);
    expect(body).to.eql(['## One']);
  });

  it('uses the title property', async () => {
    const slides = { slide1: { shapes: title('Welcome') } };
    expect((await pagesOf(slides, { 'docProps/core.xml': titlePart('Plan') })).title).to.equal('Plan');
    const unnamed = { 'docProps/core.xml': titlePart('PowerPoint Presentation') };
    expect((await pagesOf(slides, unnamed)).title).to.equal('Welcome');
  });

  it('keeps list levels and numbers', async () => {
    const number = '<a:buAutoNum type="alphaLcParenR"/>';
    const { body } = await pagesOf({
      slide1: {
        shapes:
          shape(content, line('one'), line('one a', '', 1), line('two'), line('plain', '<a:buNone/>')) +
          shape('', line('first', number), line('second', number), line('free text')),
      },
    });
    expect(body).to.eql(['## Slide 1\n\n- one\n  - one a\n- two\n\nplain\n\n- a) first\n- b) second\n\nfree text']);
  });

  it('reads from the slide layout that a text is no list', async () => {
    const layout = `<p:sldLayout ${officeNames}><p:cSld><p:spTree><p:sp><p:nvSpPr><p:nvPr><p:ph type="body" idx="1"/></p:nvPr></p:nvSpPr><p:txBody><a:lstStyle><a:lvl1pPr><a:buNone/></a:lvl1pPr></a:lstStyle></p:txBody></p:sp></p:spTree></p:cSld></p:sldLayout>`;
    const { body } = await pagesOf(
      {
        slide1: {
          shapes: shape('<p:ph type="body" idx="1"/>', line('A sentence')),
          related: { l1: ['slideLayout', '../slideLayouts/slideLayout1.xml'] },
        },
      },
      { 'ppt/slideLayouts/slideLayout1.xml': layout },
    );
    expect(body).to.eql(['## Slide 1\n\nA sentence']);
  });

  it('keeps tables, groups, alternative texts and links', async () => {
    const cell = (text: string, attributes = '') => `<a:tc${attributes}><a:txBody>${line(text)}</a:txBody></a:tc>`;
    const row = (...cells: string[]) => `<a:tr>${cells.join('')}</a:tr>`;
    const rows =
      row(cell('Office'), cell('Name')) +
      row(cell('North', ' rowSpan="2"'), cell('Ann')) +
      row(cell('', ' vMerge="1"'), cell('Bob'));
    const table = `<p:graphicFrame><a:graphic><a:graphicData><a:tbl>${rows}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>`;
    const picture = '<p:pic><p:nvPicPr><p:cNvPr descr="A map"/></p:nvPicPr></p:pic>';
    const linked =
      '<a:p><a:r><a:rPr><a:hlinkClick r:id="h1"/></a:rPr><a:t>Our site</a:t></a:r><a:r><a:t> tells more</a:t></a:r></a:p>';
    const { body } = await pagesOf({
      slide1: {
        shapes: `${table}<p:grpSp>${shape('', linked)}${picture}</p:grpSp>`,
        related: { h1: ['hyperlink', 'https://example.org/a'] },
      },
    });
    expect(body).to.eql([
      '## Slide 1\n\n| Office | Name |\n| --- | --- |\n| North | Ann |\n| North | Bob |\n\n[Our site](https://example.org/a) tells more\n\nA map',
    ]);
  });

  it('keeps speaker notes and comments', async () => {
    const notes = `<p:notes ${officeNames}><p:cSld><p:spTree>${shape('<p:ph type="body" idx="1"/>', line('Be slow.'), line('Smile.'))}${shape('<p:ph type="sldNum"/>', line('1'))}</p:spTree></p:cSld></p:notes>`;
    const comments = `<p:cmLst ${officeNames}><p:cm><p:text>Too long?</p:text></p:cm></p:cmLst>`;
    const { body } = await pagesOf(
      {
        slide1: {
          shapes: title('Welcome'),
          related: { n1: ['notesSlide', '../notesSlides/n.xml'], c1: ['comments', '../comments/c.xml'] },
        },
      },
      { 'ppt/notesSlides/n.xml': notes, 'ppt/comments/c.xml': comments },
    );
    expect(body).to.eql(['## Welcome\n\n> Notes: Be slow.\n> Smile.\n\n> Comment: Too long?']);
  });
});
