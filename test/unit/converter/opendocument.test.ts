import { expect } from 'chai';
import { parseOdp, parseOdt } from '#src/adapters/converter/formats/opendocument.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { odfEncryptedManifest, odfFile } from '#test/support/office-fixtures.ts';

type OdfContent = [body: string, more?: Parameters<typeof odfFile>[2]];

const bodyOf = async (...content: OdfContent) =>
  (await parseOdt({ bytes: odfFile('text', ...content), fileName: 'a.odt' })).body;
const pagesOf = async (...content: OdfContent) =>
  (await parseOdp({ bytes: odfFile('presentation', ...content), fileName: 'a.odp' })).body;

const line = (content: string, attributes = '') => `<text:p${attributes}>${content}</text:p>`;

describe('parseOdt', () => {
  it('keeps heading numbers, and lists that continue after a break', async () => {
    const level = (kind: string, depth: number, attributes: string) =>
      `<text:${kind} text:level="${depth}" ${attributes}/>`;
    const styles =
      `<text:outline-style>${level('outline-level-style', 1, 'style:num-format="1"')}${level('outline-level-style', 2, 'style:num-format="1" text:display-levels="2"')}</text:outline-style>` +
      `<text:list-style style:name="L">${level('list-level-style-number', 1, 'style:num-format="1" style:num-suffix="."')}${level('list-level-style-bullet', 2, '')}${level('list-level-style-number', 3, 'style:num-format="a" style:num-prefix="(" style:num-suffix=")"')}</text:list-style>`;
    const heading = (depth: number, text: string) => `<text:h text:outline-level="${depth}">${text}</text:h>`;
    const item = (text: string, inner = '') =>
      `<text:list-item>${line(text)}${inner && `<text:list>${inner}</text:list>`}</text:list-item>`;
    const body = await bodyOf(
      heading(1, 'Terms') +
        heading(2, 'Notice') +
        `<text:list text:style-name="L" xml:id="one">${item('one', item('point', item('deep')))}${item('two')}</text:list>` +
        line('Between') +
        `<text:list text:style-name="L" text:continue-list="one">${item('three')}</text:list>` +
        heading(2, 'Fees'),
      { styles },
    );
    expect(body).to.equal(
      [
        '# 1 Terms',
        '## 1.1 Notice',
        '1. one\n   - point\n     - (a) deep\n2. two',
        'Between',
        '3. three',
        '## 1.2 Fees',
      ].join('\n\n'),
    );
  });

  it('recognizes title and subtitle by their styles', async () => {
    const styles = '<style:style style:name="P1" style:parent-style-name="Title"/>';
    const body = await bodyOf(
      line('Plan', ' text:style-name="P1"') + line('For 2024', ' text:style-name="Subtitle"') + line('Text'),
      { styles },
    );
    expect(body).to.equal('# Plan\n\n## For 2024\n\nText');
  });

  it('repeats a cell in each row that it spans', async () => {
    const cell = (text: string, attributes = '') => `<table:table-cell ${attributes}>${line(text)}</table:table-cell>`;
    const covered = '<table:covered-table-cell/>';
    const row = (...cells: string[]) => `<table:table-row>${cells.join('')}</table:table-row>`;
    const body = await bodyOf(
      `<table:table><table:table-header-rows>${row(cell('Office'), cell('Staff', 'table:number-columns-spanned="2"'), covered)}</table:table-header-rows>` +
        row(cell('North', 'table:number-rows-spanned="2"'), cell('Ann'), cell('a|b')) +
        row(covered, cell('Bob'), cell('c')) +
        row(cell('South'), '<table:table-cell table:number-columns-repeated="2"/>') +
        '</table:table>',
    );
    expect(body).to.equal(
      '| Office | Staff |  |\n| --- | --- | --- |\n| North | Ann | a\\|b |\n| North | Bob | c |\n| South |  |  |',
    );
  });

  it('keeps notes, comments, links, alternative texts and equations', async () => {
    const note = `<text:note><text:note-citation>1</text:note-citation><text:note-body>${line('Without tax.')}</text:note-body></text:note>`;
    const comment = `<office:annotation><dc:creator>Ann</dc:creator>${line('Is this right?')}</office:annotation>`;
    const equation =
      '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><annotation encoding="StarMath 5.0">a over b</annotation></semantics></math>';
    const body = await bodyOf(
      line(
        `The  fee${note}<text:s text:c="3"/>is <text:span>5 %</text:span>${comment}, see <text:a xlink:href="https://example.org/a">our site</text:a>`,
      ) +
        line('<draw:frame><draw:image/><svg:desc>A red square</svg:desc></draw:frame>') +
        line('With <draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>') +
        line(`Beside<draw:frame><draw:text-box>${line('In a box')}</draw:text-box></draw:frame>`),
      { parts: { 'Object 1/content.xml': equation } },
    );
    expect(body).to.equal(
      [
        'The fee[^1] is 5 %, see [our site](https://example.org/a)',
        '[^1]: Without tax.',
        '> Comment by Ann: Is this right?',
        'A red square',
        'With $a over b$',
        'Beside',
        'In a box',
      ].join('\n\n'),
    );
  });

  it('drops deleted and hidden text', async () => {
    const style = (name: string, display: string, parent = '') =>
      `<style:style style:name="${name}" style:parent-style-name="${parent}"><style:text-properties ${display && `text:display="${display}"`}/></style:style>`;
    const styles = style('T1', 'none') + style('T2', '', 'T1') + style('T3', 'true', 'T1');
    const deleted = `<text:tracked-changes><text:changed-region><text:deletion>${line('gone')}</text:deletion></text:changed-region></text:tracked-changes>`;
    const body = await bodyOf(
      deleted +
        line(
          'kept<text:span text:style-name="T1"> secret</text:span><text:span text:style-name="T2"> too</text:span>',
        ) +
        line('hidden', ' text:style-name="T1"') +
        line('hidden too', ' text:style-name="T2"') +
        line('taken back', ' text:style-name="T3"'),
      { styles },
    );
    expect(body).to.equal('kept\n\ntaken back');
  });

  it('uses the title property, and rejects encrypted files', async () => {
    const bytes = odfFile('text', line('Text'), { title: 'Plan' });
    expect(await parseOdt({ bytes, fileName: 'a.odt' })).to.eql({ body: 'Text', title: 'Plan' });
    const encrypted = bodyOf('', { parts: { 'META-INF/manifest.xml': odfEncryptedManifest } });
    expect(await appErrorCode(encrypted)).to.equal('encrypted_document');
  });
});

describe('parseOdp', () => {
  it('returns a page with notes for each slide and marks hidden slides', async () => {
    const frame = (kind: string, content: string) =>
      `<draw:frame presentation:class="${kind}"><draw:text-box>${content}</draw:text-box></draw:frame>`;
    const slide = (content: string, style = '') => `<draw:page draw:style-name="${style}">${content}</draw:page>`;
    const notes = `<presentation:notes>${frame('notes', line('Be slow.'))}</presentation:notes>`;
    const list = `<text:list><text:list-item>${line('point')}</text:list-item></text:list>`;
    const body = await pagesOf(
      slide(frame('outline', list) + frame('title', line('Welcome')) + frame('page-number', line('1')) + notes) +
        slide(`<draw:g><draw:custom-shape>${line('In a shape')}</draw:custom-shape></draw:g>`, 'dp1') +
        slide(''),
      {
        styles:
          '<style:style style:name="dp1"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>',
      },
    );
    expect(body).to.eql(['## Welcome\n\n- point\n\n> Notes: Be slow.', '## Slide 2 (hidden slide)\n\nIn a shape', '']);
  });
});
