import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';

const CHILD = new URL('../../../scripts/bootstrap/child.mjs', import.meta.url).href;
const WAITS = 'sleep 30 >/dev/null 2>&1 & wait';

/** Runs a call of the bootstrap's in a process of its own. */
async function run(call: string) {
  const program = `import { runInForeground, runQuietly } from '${CHILD}'; void ${call};`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const said = text(child.stderr);
  const [code] = await once(child, 'exit');
  return { code, said: await said };
}

/** What the bootstrap runs asks it to stop, as Ctrl-C does, once it is able to notice that itself. */
describe('a command of the bootstrap that is cut short', () => {
  it('ends with one code and without what an installation complains about', async () => {
    const install = `trap "echo npm error process terminated; exit 1" INT; kill -INT $PPID; ${WAITS}`;
    expect(await run(`runQuietly('sh', ['-c', '${install}'])`)).deep.equal({ code: 130, said: 'Stopping …\n' });
  });

  it('ends with the same code while the command does not listen yet', async () => {
    for (const signal of ['INT', 'TERM']) {
      const young = `kill -${signal} $PPID; exec sleep 30`;
      expect(await run(`runInForeground('sh', ['-c', '${young}'], process.env)`)).deep.equal({ code: 130, said: '' });
    }
  });

  it('ends with the code of a command that stops in good order', async () => {
    const serves = `trap "exit 0" INT; kill -INT $PPID; ${WAITS}`;
    expect(await run(`runInForeground('sh', ['-c', '${serves}'], process.env)`)).deep.equal({ code: 0, said: '' });
  });
});
