// Peer process: the API without metrics and traces.
import { createServer } from 'node:http';
import { createApp } from '../../src/app.ts';
import { loadConfig } from '../../src/config.ts';
import { createContainer } from '../../src/container.ts';

const config = loadConfig();
createServer(createApp(createContainer(config, 'api')).express).listen(config.server.port, config.server.host);
