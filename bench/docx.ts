// `npm run bench:docx`: Word files to Markdown (P2), beside mammoth, which gives HTML and is not asked for more.
import { cpus, loadavg } from 'node:os';
import { buffer } from 'node:stream/consumers';
import mammoth from 'mammoth';
import { ZipFile } from 'yazl';
import { parseDocx } from '../src/adapters/converter/formats/docx.ts';
import { median } from './median.ts';

const rounds = 9;
/** P2: mammoth's processor time to ours. */
const goal = 2;

const words =
  'annual board budget clause committee contract district employee leave meeting notice office payment policy public quarter regulation report review service supply term'.split(
    ' ',
  );
const sentence = (seed: number, length: number) =>
  Array.from({ length }, (_, index) => words[(seed * 7 + index * (seed % 13)) % words.length]).join(' ');

/** Formatted as Word formats: several runs a paragraph, each with its properties. */
function section(index: number): string {
  const run = (seed: number) =>
    `<w:r w:rsidRPr="00AB12CD"><w:rPr><w:rFonts w:ascii="Arial" w:hAnsi="Arial"/><w:sz w:val="22"/></w:rPr><w:t xml:space="preserve">${sentence(seed, 12)}. </w:t></w:r>`;
  const text = (seed: number) =>
    `<w:p w:rsidR="00AB12CD"><w:pPr><w:spacing w:after="120"/></w:pPr>${Array.from({ length: 5 }, (_, at) => run(seed + at)).join('')}</w:p>`;
  const row = (seed: number) =>
    `<w:tr>${Array.from({ length: 5 }, (_, at) => `<w:tc><w:tcPr><w:tcW w:w="2000"/></w:tcPr>${paragraph(sentence(seed + at, 2))}</w:tc>`).join('')}</w:tr>`;
  return (
    paragraph(`Section ${index}`, '<w:pPr><w:pStyle w:val="H1"/></w:pPr>') +
    Array.from({ length: 12 }, (_, at) => text(index * 60 + at * 5)).join('') +
    `<w:tbl>${Array.from({ length: 12 }, (_, at) => row(index * 60 + at * 5)).join('')}</w:tbl>`
  );
}

function paragraph(text: string, properties = ''): string {
  return `<w:p>${properties}<w:r><w:t xml:space="preserve">${text}</w:t></w:r></w:p>`;
}

/** A Word file with one style, `H1`. */
function wordFile(body: string): Promise<Buffer> {
  const word = 'http://schemas.openxmlformats.org/wordprocessingml/2006/main';
  const packages = 'http://schemas.openxmlformats.org/package/2006';
  const office = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
  const parts = {
    '[Content_Types].xml': `<Types xmlns="${packages}/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>`,
    '_rels/.rels': `<Relationships xmlns="${packages}/relationships"><Relationship Id="r1" Type="${office}/officeDocument" Target="word/document.xml"/></Relationships>`,
    'word/_rels/document.xml.rels': `<Relationships xmlns="${packages}/relationships"><Relationship Id="r2" Type="${office}/styles" Target="styles.xml"/></Relationships>`,
    'word/styles.xml': `<w:styles xmlns:w="${word}"><w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style></w:styles>`,
    'word/document.xml': `<w:document xmlns:w="${word}"><w:body>${body}</w:body></w:document>`,
  };
  const zip = new ZipFile();
  for (const [name, content] of Object.entries(parts)) zip.addBuffer(Buffer.from(content), name);
  zip.end();
  return buffer(zip.outputStream);
}

async function cpuMs(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const sections = 150;
const bytes = await wordFile(Array.from({ length: sections }, (_, index) => section(index)).join(''));
const ours: number[] = [];
const mammoths: number[] = [];
// The first round of each warms the code up.
for (let round = 0; round <= rounds; round += 1) {
  const own = await cpuMs(() => parseDocx({ bytes, fileName: 'a.docx' }));
  const its = await cpuMs(() => mammoth.convertToHtml({ buffer: bytes }));
  if (round === 0) console.log(`the first round, as a process of its own has it: ${(its / own).toFixed(2)}\n`);
  else {
    ours.push(own);
    mammoths.push(its);
  }
}
const { body } = await parseDocx({ bytes, fileName: 'a.docx' });
const ratio = median(mammoths) / median(ours);
console.log(
  `${sections} sections, ${body.length} characters of Markdown, ${rounds} rounds in turns, medians of processor time\n`,
);
console.log('| | ms |\n|---|---|');
console.log(`| ours, Markdown | ${Math.round(median(ours))} |`);
console.log(`| mammoth, HTML | ${Math.round(median(mammoths))} |`);
console.log(`\nmammoth / ours: ${ratio.toFixed(2)} (goal: at least ${goal}) ${ratio >= goal ? 'met' : 'missed'}`);
console.log(`node ${process.versions.node}, ${cpus().length} cores, load ${loadavg()[0]?.toFixed(1)}`);
