import { itServes } from './provider.cases.ts';

itServes('acme_drive');
