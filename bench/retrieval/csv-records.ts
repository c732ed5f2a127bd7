/** Parses CSV by RFC 4180, with quoted fields that may contain commas, quotes and line breaks. */
export function csvRecords(csv: string): string[][] {
  const rows: string[][] = [[]];
  for (const [, quoted, plain, end] of csv.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain ?? '');
    if (end !== ',' && end !== '') rows.push([]);
  }
  return rows.filter((row) => row.length > 1);
}
