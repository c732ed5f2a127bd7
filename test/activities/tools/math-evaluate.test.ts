import { expect } from 'chai';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { createMathTool } from '#src/adapters/tools/built-in-executors.ts';
import { toolContext as context, refusal } from '#test/support/tool-context.ts';

describe('math.evaluate', () => {
  const sandbox = createParserSandbox('auto');
  const evaluate = createMathTool({ sandbox });
  const worth = (expression: string) => evaluate({ expression }, context);

  it('evaluates usual expressions', async () => {
    const asked = ['(1200 * 0.035) / 12', '5 inch to cm', 'mean([1, 2, 4])', '0.1 + 0.2', 'f(x) = x^2; f(12)'];
    expect(await Promise.all(asked.map(worth))).deep.equal(['3.5', '12.7 cm', '2.3333333333333', '0.3', '[144]']);
  });

  it('says what is wrong with an expression', async () => {
    expect(await refusal(evaluate, { expression: '2 +' })).match(/Unexpected end/);
    expect(await refusal(evaluate, { expression: '9^9^9^9' })).match(/not a finite number/);
    expect(await refusal(evaluate, { expression: 'factorial(1e9)' })).match(/finite|large|memory/);
  });

  it('gives no access to code, files or the environment', async () => {
    const attacks = [
      'evaluate("1")',
      'parse("1")',
      'import({a: 1})',
      'createUnit("x")',
      'cos.constructor("return process")()',
      '"".constructor',
      '[].constructor',
      '{}.__proto__',
      'process.env',
      'f(x) = x; f.constructor("return 1")()',
    ];
    for (const expression of attacks) expect(await refusal(evaluate, { expression }), expression).not.equal('');
  });

  it('kills expressions above the CPU or memory limit, while others go on', async () => {
    const greedy = [
      'sum(zeros(30000, 30000))',
      'f(n) = f(n - 1) + f(n - 2) + f(n - 3) + 1; f(0)',
      '1:1e9',
      'inv(random([900, 900]))^99',
    ];
    const limited = createMathTool({ sandbox, cpuSeconds: 1 });
    let ticks = 0;
    const ticking = setInterval(() => (ticks += 1), 20);
    const outcomes = await Promise.all(greedy.map((expression) => refusal(limited, { expression }).catch(String)));
    clearInterval(ticking);
    expect(
      outcomes.filter((detail) => /time or memory|call stack|ndex|large/i.test(detail)).length,
      outcomes.join('\n'),
    ).at.least(3);
    expect(ticks).above(10);
  });

  it('rejects calculations beyond the queue limit', async () => {
    const busy = createMathTool({ sandbox });
    const stop = new AbortController();
    const asked = Array.from({ length: 14 }, () => busy({ expression: '1' }, { ...context, signal: stop.signal }));
    const last = await asked.at(-1)?.catch((error: unknown) => error);
    expect(last).include({ code: 'tool_failed', errorClass: 'transient' });
    stop.abort(new Error('gone'));
    await Promise.allSettled(asked);
  });

  it('stops on abort although a child process keeps the output open', async () => {
    const confine = () => ['/bin/sh', '-c', 'sleep 20 & exit 0'] as const;
    const tool = createMathTool({ sandbox: { missing: null, confine } });
    const outcome = tool({ expression: '1' }, { ...context, signal: AbortSignal.timeout(300) });
    expect(await outcome.catch((error: unknown) => error)).property('name', 'TimeoutError');
  });

  it('stops when the caller aborts', async () => {
    const stop = new AbortController();
    const outcome = evaluate({ expression: 'f(n) = f(n)+f(n); 1' }, { ...context, signal: stop.signal });
    stop.abort(new Error('gone'));
    expect(String(await outcome.catch((error: unknown) => error))).equal('Error: gone');
  });
});
