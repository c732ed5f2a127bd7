import { model } from './base-model.ts';
import { bytea, integer, text, timestamp } from './columns.ts';

export class RateLimitModel extends model(
  'rate_limits',
  {
    name: text(),
    subject: bytea(),
    used: integer(),
    endsAt: timestamp(),
  },
  ['name', 'subject'],
) {}
