import { expect } from 'chai';
import { drawTrendChart } from '#src/modules/logs/trend-chart.ts';

const point = (round: number, ewma: number, state: 'stable' | 'drift_user' | 'refusal') => ({ round, ewma, state });

describe('trend chart', () => {
  it('says that no round has been scored yet', () => {
    expect(drawTrendChart({ title: 'Loans', points: [] }))
      .include('<desc id="desc">No round has been scored yet.</desc>')
      .not.include('NaN');
  });

  it('draws a single round as a point', () => {
    const svg = drawTrendChart({ title: 'Loans', points: [point(1, 100, 'stable')] });
    expect(svg).include('<circle class="point" cx="374" cy="36" r="4"/>').not.include('NaN');
  });

  it('joins neighbours of one state into a band, including unscored rounds between them', () => {
    const states = [point(1, 90, 'stable'), point(2, 40, 'drift_user'), point(5, 30, 'drift_user')];
    const bands = drawTrendChart({ title: 'Loans', points: states }).match(
      /<rect class="\w+" x="[\d.]+" y="36" width="[\d.]+"/g,
    );
    expect(bands).deep.equal([
      '<rect class="stable" x="44" y="36" width="132"',
      '<rect class="drift" x="176" y="36" width="528"',
    ]);
  });

  it('escapes the title', () => {
    const title = `</title><script>"'&\u0000\u001b\ud800${'x'.repeat(100)}`;
    const svg = drawTrendChart({ title, points: [point(1, 50, 'refusal')] });
    expect(svg).include('Trend of &lt;/title&gt;&lt;script&gt;&quot;&#39;&amp; \ufffdxxx').not.include('<script');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML cannot hold.
    expect(svg).not.match(/[\u0000-\u0008\u000b-\u001f]/);
  });
});
