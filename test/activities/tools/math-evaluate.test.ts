import { expect } from 'chai';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { createMathTool } from '#src/adapters/tools/built-in-executors.ts';
import { toolContext as context, refusal } from '#test/support/tool-context.ts';

describe('the tool math.evaluate', () => {
  const sandbox = createParserSandbox('auto');
  const evaluate = createMathTool({ sandbox });
  const failureOf = (outcome: Promise<unknown> | undefined) => outcome?.catch((error: unknown) => error);

  it('evaluates common mathematical expressions', async () => {
    for (const [expression, value] of [
      ['(1200 * 0.035) / 12', '3.5'],
      ['5 inch to cm', '12.7 cm'],
      ['mean([1, 2, 4])', '2.3333333333333'],
      ['0.1 + 0.2', '0.3'],
      ['f(x) = x^2; f(12)', '[144]'],
    ] as const) {
      expect(await evaluate({ expression }, context)).equal(value);
    }
  });

  it('returns an error that says what is wrong with the expression', async () => {
    for (const [expression, reason] of [
      ['2 +', /Unexpected end/],
      ['9^9^9^9', /not a finite number/],
      ['factorial(1e9)', /finite|large|memory/],
    ] as const) {
      expect(await refusal(evaluate, { expression })).match(reason);
    }
  });

  it('gives expressions no access to code, files or the environment', async () => {
    const attacks = ['evaluate("1")', 'import({a: 1})', 'createUnit("x")', 'process.env', '{}.__proto__'];
    for (const expression of [...attacks, 'cos.constructor("return process")()'])
      expect(await refusal(evaluate, { expression }), expression).not.equal('');
  });

  it('kills a calculation above the CPU or memory limit', async () => {
    const greedy = ['sum(zeros(30000, 30000))', '1:1e9', 'inv(random([900, 900]))^99'];
    greedy.push('f(n) = f(n - 1) + f(n - 2) + f(n - 3) + 1; f(0)');
    const limited = createMathTool({ sandbox, cpuSeconds: 1 });
    const outcomes = await Promise.all(greedy.map((expression) => refusal(limited, { expression }).catch(String)));
    const killed = outcomes.filter((detail) => /time or memory|call stack|ndex|large/i.test(detail));
    expect(killed.length, outcomes.join('\n')).at.least(3);
  });

  it('rejects calculations beyond the queue limit, and stops when the caller aborts', async () => {
    const busy = createMathTool({ sandbox });
    const stop = new AbortController();
    const asked = Array.from({ length: 14 }, () => busy({ expression: '1:9' }, { ...context, signal: stop.signal }));
    expect(await failureOf(asked.at(-1))).include({ code: 'tool_failed', errorClass: 'transient' });
    stop.abort(new Error('gone'));
    expect(String(await failureOf(asked[0]))).equal('Error: gone');
    await Promise.allSettled(asked);
  });
});
