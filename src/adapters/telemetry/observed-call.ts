import type { OpenSpan, SpanFacts, Telemetry } from '#src/ports/telemetry.ts';
import { outcomeOf } from './outcome-of.ts';

/** `ok`, or the code of what went wrong; how long it took. */
export type CallEnd = (outcome: string, seconds: number) => void;

/** Does `work` as a span of its own, and says how it ended and when. */
export async function observedCall<T>(
  { tracing }: Pick<Telemetry, 'tracing'>,
  facts: SpanFacts,
  onEnd: CallEnd,
  work: (span: OpenSpan) => Promise<T>,
): Promise<T> {
  const startedMs = performance.now();
  const span = tracing.start(facts);
  const end = (failure?: string) => {
    span.end(failure);
    onEnd(failure ?? 'ok', (performance.now() - startedMs) / 1_000);
  };
  try {
    const result = await span.run(() => work(span));
    end();
    return result;
  } catch (error) {
    end(outcomeOf(error));
    throw error;
  }
}

type AsyncMethod = (...args: never[]) => Promise<unknown>;
type AsyncNames<Port> = { [Name in keyof Port]: Port[Name] extends AsyncMethod ? Name : never }[keyof Port] & string;

/**
 * The same port, with some of its methods observed.
 * @param observe gets the method's name, what it was called with, and the call itself
 */
export function withObserved<Port extends object>(
  port: Port,
  names: readonly AsyncNames<Port>[],
  observe: <T>(operation: string, args: readonly unknown[], call: () => Promise<T>) => Promise<T>,
): Port {
  const observed = names.map((name) => {
    const method = port[name] as (...args: unknown[]) => Promise<unknown>;
    return [name, (...args: unknown[]) => observe(name, args, () => method(...args))] as const;
  });
  return { ...port, ...Object.fromEntries(observed) };
}
