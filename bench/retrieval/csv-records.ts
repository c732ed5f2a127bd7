/** CSV as RFC 4180 has it, for fields that may hold commas, quotes and line breaks. */
export function csvRecords(csv: string): string[][] {
  const rows: string[][] = [[]];
  for (const [, quoted, plain, end] of csv.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain ?? '');
    if (end !== ',' && end !== '') rows.push([]);
  }
  return rows.filter((row) => row.length > 1);
}
