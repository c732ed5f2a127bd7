import { expect } from 'chai';
import fc from 'fast-check';
import { type ReportPeriodPart, splitReportPeriod } from '#src/domain/alignment/log-totals.ts';

const anyMoment = fc.date({
  min: new Date('2024-12-01T00:00:00Z'),
  max: new Date('2026-03-01T00:00:00Z'),
  noInvalidDate: true,
});
const anyEnd = fc.option(
  fc.oneof(
    anyMoment,
    anyMoment.map((at) => new Date(at.toISOString().slice(0, 10))),
  ),
);
const holds = ({ from, until }: Pick<ReportPeriodPart, 'from' | 'until'>, at: Date) =>
  (from === null || from <= at) && (until === null || at < until);

describe('the parts of a period', () => {
  const partsAt = (from: string | null, until: string | null) =>
    splitReportPeriod({
      from: from === null ? null : new Date(from),
      until: until === null ? null : new Date(until),
    }).map((part) => `${part.span} ${part.from?.toISOString() ?? '…'} ${part.until?.toISOString() ?? '…'}`);

  it('are a single one for an unbounded period', () => {
    expect(partsAt(null, null)).deep.equal(['ever … …']);
  });

  it('are months, surrounded by days and moments', () => {
    expect(partsAt('2026-01-30T12:00:00Z', '2026-04-02T06:00:00Z')).deep.equal([
      'moment 2026-01-30T12:00:00.000Z 2026-01-31T00:00:00.000Z',
      'day 2026-01-31T00:00:00.000Z 2026-02-01T00:00:00.000Z',
      'month 2026-02-01T00:00:00.000Z 2026-04-01T00:00:00.000Z',
      'day 2026-04-01T00:00:00.000Z 2026-04-02T00:00:00.000Z',
      'moment 2026-04-02T00:00:00.000Z 2026-04-02T06:00:00.000Z',
    ]);
  });

  it('contain no moments if the period consists of whole days', () => {
    expect(partsAt('2026-01-01', '2026-02-02')).deep.equal([
      'month 2026-01-01T00:00:00.000Z 2026-02-01T00:00:00.000Z',
      'day 2026-02-01T00:00:00.000Z 2026-02-02T00:00:00.000Z',
    ]);
    expect(partsAt('2026-01-05', null)).deep.equal([
      'day 2026-01-05T00:00:00.000Z 2026-02-01T00:00:00.000Z',
      'month 2026-02-01T00:00:00.000Z …',
    ]);
  });

  it('are none if the period ends before it begins', () => {
    expect(partsAt('2026-02-02', '2026-02-02')).deep.equal([]);
    expect(partsAt('2026-03-02', '2026-02-02')).deep.equal([]);
  });

  it('cover each moment of the period exactly once', () => {
    fc.assert(
      fc.property(anyEnd, anyEnd, anyMoment, (from, until, at) => {
        const holding = splitReportPeriod({ from, until }).filter((part) => holds(part, at));
        expect(holding.length).equal(holds({ from, until }, at) ? 1 : 0);
      }),
    );
  });

  it('begin and end at month and day boundaries', () => {
    fc.assert(
      fc.property(anyEnd, anyEnd, (from, until) => {
        for (const part of splitReportPeriod({ from, until })) {
          const start = part.span === 'month' ? /-01T00:00:00\.000Z$/ : part.span === 'day' ? /T00:00:00\.000Z$/ : /Z$/;
          for (const end of [part.from, part.until]) if (end !== null) expect(end.toISOString()).match(start);
        }
      }),
    );
  });
});
