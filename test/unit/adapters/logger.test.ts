import { closeSync, openSync, readFileSync } from 'node:fs';
import { expect } from 'chai';
import { createLogger } from '#src/adapters/logger.ts';
import { toLoggableError } from '#src/adapters/postgres/errors.ts';
import { appError } from '#src/errors.ts';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';

describe('the logger', () => {
  const pathOf = useTemporaryFolder();

  function linesOf(write: (logger: ReturnType<typeof createLogger>) => void) {
    const fd = openSync(pathOf('log'), 'w');
    write(createLogger({ base: { role: 'api' }, serializers: { err: toLoggableError } }, fd));
    closeSync(fd);
    const lines = readFileSync(pathOf('log'), 'utf8').trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line));
  }

  it('writes JSON lines with an ISO time and the name of the level', () => {
    const [line] = linesOf((logger) => logger.info({ chatId: 'c1' }, 'a round was answered'));
    expect(line).include({ level: 'info', role: 'api', chatId: 'c1', msg: 'a round was answered' });
    expect(new Date(line.time).toISOString()).equal(line.time);
  });

  it('writes no stack of an error of the catalogue, unless it is an unexpected one', () => {
    const expected = appError('model_unavailable', { detail: 'The model did not answer.' });
    const caused = appError('internal_error', { cause: new Error('a bug') });
    const [first, second] = linesOf((logger) => {
      logger.warn({ err: expected }, 'expected');
      logger.error({ err: caused }, 'unexpected');
    });
    expect(first.err).deep.equal({
      type: 'AppError',
      code: 'model_unavailable',
      message: 'The model did not answer.',
    });
    expect(second.err.stack).include('a bug');
  });
});
