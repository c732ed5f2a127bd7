/** Word processors name their heading styles in the language of their menus. */
const names = [
  'heading',
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
const headingName = new RegExp(`^(?:${names.join('|')}) ?([1-9])$`, 'i');

/** The level of headings that have a style of this name, 1 for the outermost; undefined for any other style. */
export function headingLevel(styleName: string): number | undefined {
  if (/^title$/i.test(styleName)) return 1;
  if (/^subtitle$/i.test(styleName)) return 2;
  const digit = headingName.exec(styleName)?.[1];
  return digit === undefined ? undefined : Number(digit);
}
