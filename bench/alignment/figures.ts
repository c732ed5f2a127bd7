/** A measured value. With a bound it is a gate, which fails the benchmark. */
export type Figure = { name: string; value: number; atLeast?: number; atMost?: number };

export type Report = { title: string; figures: Figure[]; lines: string[] };

export function isWithin({ value, atLeast = -Infinity, atMost = Infinity }: Figure): boolean {
  return value >= atLeast && value <= atMost;
}

export function formatReport({ title, figures, lines }: Report): string {
  const rows = figures.map((figure) => {
    const { name, value, atLeast, atMost } = figure;
    const gate = atLeast !== undefined ? `at least ${atLeast}` : atMost !== undefined ? `at most ${atMost}` : '';
    return `| ${name} | ${formatFigure(value)} | ${gate} | ${gate === '' ? '' : isWithin(figure) ? 'holds' : 'FAILS'} |`;
  });
  return ['', `## ${title}`, '', '| | | gate | |', '|---|---|---|---|', ...rows, '', ...lines].join('\n');
}

export function formatFigure(value: number): string {
  return Math.abs(value) >= 10 ? value.toFixed(0) : value.toFixed(value > 1 ? 2 : 3);
}
