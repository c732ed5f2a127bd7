import { expect } from 'chai';
import { drawTrendChart } from '#src/modules/logs/trend-chart.ts';

describe('the trend chart of a chat', () => {
  type State = 'stable' | 'drift_user' | 'refusal';
  const draw = (points: readonly (readonly [round: number, ewma: number, state: State])[], title = 'Loans') =>
    drawTrendChart({ title, points: points.map(([round, ewma, state]) => ({ round, ewma, state })) });

  it('says that no round has been scored yet, or shows a single round as a point', () => {
    expect(draw([])).include('<desc id="desc">No round has been scored yet.</desc>').not.include('NaN');
    const point = '<circle class="point" cx="374" cy="36" r="4"/>';
    expect(draw([[1, 100, 'stable']]))
      .include(point)
      .not.include('NaN');
  });

  it('joins neighbouring rounds of one state into a band, including unscored rounds between them', () => {
    const svg = draw([
      [1, 90, 'stable'],
      [2, 40, 'drift_user'],
      [5, 30, 'drift_user'],
    ]);
    expect(svg.match(/<rect class="\w+" x="[\d.]+" y="36" width="[\d.]+"/g)).deep.equal([
      '<rect class="stable" x="44" y="36" width="132"',
      '<rect class="drift" x="176" y="36" width="528"',
    ]);
  });

  it('escapes the title', () => {
    const svg = draw([[1, 50, 'refusal']], `</title><script>"'&\u0000\u001b\ud800${'x'.repeat(100)}`);
    expect(svg).include('Trend of &lt;/title&gt;&lt;script&gt;&quot;&#39;&amp; \ufffdxxx').not.include('<script');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML cannot hold.
    expect(svg).not.match(/[\u0000-\u0008\u000b-\u001f]/);
  });
});
