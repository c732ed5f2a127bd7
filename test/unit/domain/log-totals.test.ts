import { expect } from 'chai';
import fc from 'fast-check';
import { type ReportPeriodPart, splitReportPeriod } from '#src/domain/alignment/log-totals.ts';

describe('the time intervals that a report adds up', () => {
  const date = (text: string | null) => (text === null ? null : new Date(text));
  const partsOf = (from: string | null, until: string | null) =>
    splitReportPeriod({ from: date(from), until: date(until) }).map((part) => {
      const ends = [part.from, part.until].map((end) => end?.toISOString().replace(':00.000Z', '') ?? '…');
      return `${part.span} ${ends.join(' ')}`;
    });

  it('are whole months, whole days, and the hours that remain at both ends', () => {
    expect(partsOf(null, null)).deep.equal(['ever … …']);
    expect(partsOf('2026-01-30T12:00:00Z', '2026-04-02T06:00:00Z')).deep.equal([
      ...['moment 2026-01-30T12:00 2026-01-31T00:00', 'day 2026-01-31T00:00 2026-02-01T00:00'],
      ...['month 2026-02-01T00:00 2026-04-01T00:00', 'day 2026-04-01T00:00 2026-04-02T00:00'],
      'moment 2026-04-02T00:00 2026-04-02T06:00',
    ]);
    expect(partsOf('2026-01-01', '2026-02-02')).deep.equal([
      'month 2026-01-01T00:00 2026-02-01T00:00',
      'day 2026-02-01T00:00 2026-02-02T00:00',
    ]);
    expect(partsOf('2026-01-05', null)).deep.equal([
      'day 2026-01-05T00:00 2026-02-01T00:00',
      'month 2026-02-01T00:00 …',
    ]);
    expect(partsOf('2026-02-02', '2026-02-02')).deep.equal([]);
    expect(partsOf('2026-03-02', '2026-02-02')).deep.equal([]);
  });

  it('cover each moment of the period exactly once, and begin and end at month and day boundaries', () => {
    const [min, max] = [new Date('2024-12-01T00:00:00Z'), new Date('2026-03-01T00:00:00Z')];
    const moment = fc.date({ min, max, noInvalidDate: true });
    const day = moment.map((at) => new Date(at.toISOString().slice(0, 10)));
    const anyEnd = fc.option(fc.oneof(moment, day));
    const holds = ({ from, until }: Pick<ReportPeriodPart, 'from' | 'until'>, at: Date) =>
      (from === null || from <= at) && (until === null || at < until);
    const boundaries: Record<string, RegExp> = { month: /-01T00:00:00\.000Z$/, day: /T00:00:00\.000Z$/ };
    fc.assert(
      fc.property(anyEnd, anyEnd, moment, (from, until, at) => {
        const parts = splitReportPeriod({ from, until });
        expect(parts.filter((part) => holds(part, at)).length).equal(holds({ from, until }, at) ? 1 : 0);
        for (const part of parts) {
          for (const end of [part.from, part.until])
            if (end) expect(end.toISOString()).match(boundaries[part.span] ?? /Z$/);
        }
      }),
    );
  });
});
