import { inverseDocumentFrequency } from './bm25.ts';
import table from './idf-table.json' with { type: 'json' };

const frequencies: ReadonlyMap<string, number> = new Map(
  Object.entries(table.stemsByFrequency).flatMap(([frequency, stems]) =>
    stems.split(' ').map((stem) => [stem, Number(frequency)] as const),
  ),
);

const rarest = inverseDocumentFrequency(0, table.texts);

/**
 * How rare a stem is in English, 0 (in every text) to 1 (in none). From a table that ships with the application and not
 * from a tenant's texts, so that a score means the same everywhere and stays reproducible.
 */
export function rarity(stem: string): number {
  return inverseDocumentFrequency(frequencies.get(stem) ?? 0, table.texts) / rarest;
}
