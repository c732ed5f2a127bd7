import { ConfigError, loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import { startWorkers } from './run.ts';
import { installRuntime } from './runtime.ts';

async function main(): Promise<void> {
  const container = createContainer(loadConfig(), 'worker');
  installRuntime(container.logger);
  const workers = startWorkers(container);
  const stop = () => void workers.shutdown();
  process.once('SIGTERM', stop).once('SIGINT', stop);
  await workers.finished;
  await container.close();
}

main().catch((error: unknown) => {
  console.error(error instanceof ConfigError ? error.message : error);
  process.exit(1);
});
