import type { CounterName, GaugeName, HistogramName, LabelsOf } from '#src/contracts/metrics.ts';

/** A value of a gauge and whose it is. */
export type GaugeSample<Name extends GaugeName> = { labels: LabelsOf<Name>; value: number };

/** What operators watch. Counting is cheap, never fails and never waits. */
export type Metrics = {
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>, by?: number): void;
  time<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, seconds: number): void;
  /**
   * Asked whenever somebody looks, at most once in `everyMs`. What throws, or takes long, is left out of that look: the
   * others are needed most when something is wrong.
   */
  gauge<Name extends GaugeName>(
    name: Name,
    read: () => readonly GaugeSample<Name>[] | Promise<readonly GaugeSample<Name>[]>,
    everyMs?: number,
  ): void;
  /** All that is known now, in the text format of Prometheus. */
  page(): Promise<{ text: string; mediaType: string }>;
};
