import mammoth from 'mammoth';
import { htmlToMarkdown } from '../html-to-markdown.ts';
import type { DocumentParser } from '../parsed-document.ts';

/** Word names its heading styles in the language of its menus when the document came through other programs. */
const headingNames = [
  'heading',
  'Heading',
  'Überschrift',
  'Titre',
  'Título',
  'Titolo',
  'Kop',
  'Rubrik',
  'Overskrift',
  'Otsikko',
  'Nagłówek',
  'Nadpis',
  'Заголовок',
  'Başlık',
  '标题',
  '見出し',
  '제목',
];

const styleMap = [
  "p[style-name='Title'] => h1:fresh",
  "p[style-name='Subtitle'] => h2:fresh",
  ...headingNames.flatMap((name) =>
    [1, 2, 3, 4, 5, 6].map((level) => `p[style-name='${name} ${level}'] => h${level}:fresh`),
  ),
];

/** Word: headings, lists and tables; pictures are left out. The archive was checked for bombs and entities before. */
export const parseDocx: DocumentParser = async ({ bytes }) => {
  const { value } = await mammoth.convertToHtml(
    { buffer: bytes },
    { styleMap, convertImage: mammoth.images.imgElement(async () => ({ src: '' })), externalFileAccess: false },
  );
  return { body: htmlToMarkdown(value), title: null };
};
