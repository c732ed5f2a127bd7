/** Something that was measured; with a bound it is a gate, and fails beyond it. */
export type Figure = { name: string; value: number; atLeast?: number; atMost?: number };

export type Report = { title: string; figures: Figure[]; lines: string[] };

export function isWithin({ value, atLeast = -Infinity, atMost = Infinity }: Figure): boolean {
  return value >= atLeast && value <= atMost;
}

export function show({ title, figures, lines }: Report): string {
  const rows = figures.map((figure) => {
    const { name, value, atLeast, atMost } = figure;
    const gate = atLeast !== undefined ? `at least ${atLeast}` : atMost !== undefined ? `at most ${atMost}` : '';
    return `| ${name} | ${written(value)} | ${gate} | ${gate === '' ? '' : isWithin(figure) ? 'holds' : 'FAILS'} |`;
  });
  return ['', `## ${title}`, '', '| | | gate | |', '|---|---|---|---|', ...rows, '', ...lines].join('\n');
}

/** Rounds and percentages need no third digit. */
export function written(value: number): string {
  return Math.abs(value) >= 10 ? value.toFixed(0) : value.toFixed(value > 1 ? 2 : 3);
}
