// A hostile server in a process of its own, whose work and memory are not measured with those of the clients.
import { startHostileServer } from './hostile-server.ts';

const server = await startHostileServer();
process.on('message', ([kind, answer, sound]: Parameters<typeof server.behave>) => {
  server.drop();
  server.behave(kind, answer, sound);
  process.send?.('ready');
});
process.on('disconnect', () => process.exit(0));
process.send?.(server.place);
