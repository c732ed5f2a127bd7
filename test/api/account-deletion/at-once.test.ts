import { expect } from 'chai';
import { aColleague, aPublishedAgent, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { stoppedIngestion, systemFolder } from '#test/support/stopped-jobs.ts';
import { until } from '#test/support/until.ts';

type Act = { title: string; remove: (ada: Member, grace: Member) => Promise<unknown>; isOrganizationGone: boolean };

const acts: Act[] = [
  {
    title: 'removing a member',
    remove: (ada, grace) => ada.delete(`/entity/members/${grace.userId}`, 204),
    isOrganizationGone: false,
  },
  {
    title: 'deleting the own account',
    remove: (_, grace) => grace.delete('/auth/account', 204, { password: grace.password }),
    isOrganizationGone: false,
  },
  {
    title: 'deleting the organization',
    remove: (ada) => ada.delete('/entity/org', 204),
    isOrganizationGone: true,
  },
];

for (const { title, remove, isOrganizationGone } of acts) {
  describe(title, () => {
    let stack: ScriptedStack;
    let ada: Member;
    let grace: Member;
    let finish = Promise.withResolvers<void>();

    before(async () => {
      stack = await scriptedStack();
    });
    beforeEach(async () => {
      finish = Promise.withResolvers();
      stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
      ada = await stack.signUp();
      grace = await aColleague(stack, ada, 'Grace', { is_admin: true });
    });
    afterEach(() => {
      finish.resolve();
      stack.model.failEmbeddings(false);
    });

    it('ends streams and discards the answer in progress', async () => {
      const agentId = await aPublishedAgent(grace);
      const events = await openChatStream(grace, { agent_id: agentId, message: 'How is a loan repaid?' });
      await events.next();
      await remove(ada, grace);
      const rest = await collect(events);
      expect(rest.map(({ event }) => event)).deep.equal(['error']);
      const round = await until('the round is over', async () => {
        const [found] = await stack.container.db('rounds').where({ orgId: ada.orgId });
        return found.status === 'error' && found;
      });
      expect(round).include({ errorCode: 'account_disabled', assistantReply: null });
    });

    it(`cancels the runs of ${isOrganizationGone ? 'all' : 'personal'} documents${isOrganizationGone ? '' : ' only'}`, async () => {
      const { db } = stack.container;
      const personal = await stoppedIngestion(stack, grace, 'parked');
      const shared = await stoppedIngestion(stack, grace, 'parked', await systemFolder(grace, 'org_root'));
      await remove(ada, grace);
      const statusOf = async ({ jobId }: { jobId: string }) => (await db('jobs').where({ id: jobId }).first())?.status;
      await until('the personal run is cancelled', async () => (await statusOf(personal)) === 'cancelled');
      const gone = isOrganizationGone ? ada.orgId : grace.userId;
      const waits = async () =>
        (
          await db('jobs')
            .where({ id: `erase-${gone}` })
            .first()
        )?.stage === 'wait';
      await until('the erasure waits for its due day', waits);
      expect(await statusOf(shared)).equal(isOrganizationGone ? 'cancelled' : 'parked');
    });
  });
}
