import { expect } from 'chai';
import { freshEmail } from '#test/support/builders.ts';
import { startApiProcess } from '#test/support/child-processes.ts';
import { startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('the log line of a Postgres error', () => {
  it('has code, constraint and table, but no values of the row or of the request', async () => {
    const api = await startStack({}, { workers: false });
    const child = await startApiProcess(api);
    try {
      await api.container.db.raw(`
        alter table users add constraint broken check (false) not valid;
        create function fail_cast() returns trigger language plpgsql as
          $$ begin perform new.name::integer; return new; end $$;
        create trigger broken before insert on organizations for each row execute function fail_cast();
      `);
      const anonymous = api.anonymous.at(child.baseUrl);
      const person = { password: 'Correct-horse-1', first_name: 'Planted-name' };
      await anonymous.post('/auth/register', { email: freshEmail(), ...person, org_name: '7' }, 500);
      await anonymous.post('/auth/register', { email: freshEmail(), ...person, org_name: 'Planted-org' }, 500);
      const failures = () => child.log().match(/^.*"request failed".*$/gm) ?? [];
      await until('both failures are logged', async () => failures().length === 2);
      const [checked, cast] = failures().map((line) => JSON.parse(line).err);
      expect(checked).include({ code: '23514', constraint: 'broken', table: 'users' });
      expect(cast).include({ code: '22P02' });
      for (const word of ['Planted-name', 'Planted-org', 'argon2id', '$argon2']) expect(child.log()).not.contain(word);
    } finally {
      await child.stop();
      await api.close();
    }
  });
});
