import { expect } from 'chai';
import { openChatStream, publishAgent } from '#test/support/chat-fixtures.ts';
import type { Member } from '#test/support/client.ts';
import { signUpColleague } from '#test/support/colleague.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { stoppedIngestion, systemFolder } from '#test/support/stopped-jobs.ts';
import { until } from '#test/support/until.ts';

type Act = { whoLeaves: string; leave: (ada: Member, grace: Member) => Promise<unknown>; isOrganizationGone: boolean };

const acts: Act[] = [
  {
    whoLeaves: 'a member who is removed',
    leave: (ada, grace) => ada.delete(`/entity/members/${grace.userId}`, 204),
    isOrganizationGone: false,
  },
  {
    whoLeaves: 'a user who deletes his account',
    leave: (_, grace) => grace.delete('/auth/account', 204, { password: grace.password }),
    isOrganizationGone: false,
  },
  {
    whoLeaves: 'a member of an organization that is deleted',
    leave: (ada) => ada.delete('/entity/org', 204),
    isOrganizationGone: true,
  },
];

for (const { whoLeaves, leave, isOrganizationGone } of acts) {
  describe(`${whoLeaves} loses at once`, () => {
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
      grace = await signUpColleague(stack, ada, 'Grace', { is_admin: true });
    });
    afterEach(() => {
      finish.resolve();
      stack.model.failEmbeddings(false);
    });

    it('his streams, and the answer that is being written, of which nothing is stored', async () => {
      const agentId = await publishAgent(grace);
      const events = await openChatStream(grace, { agent_id: agentId, message: 'How is a loan repaid?' });
      await events.next();
      await leave(ada, grace);
      const rest = await collect(events);
      expect(rest.map(({ event }) => event)).deep.equal(['error']);
      const round = await until('the round is over', async () => {
        const [found] = await stack.container.db('rounds').where({ orgId: ada.orgId });
        return found.status === 'error' && found;
      });
      expect(round).include({ errorCode: 'account_disabled', assistantReply: null });
    });

    it(`the runs of his own documents${isOrganizationGone ? ', and of all others' : ', and of no others'}`, async () => {
      const { db } = stack.container;
      const personal = await stoppedIngestion(stack, grace, 'parked');
      const shared = await stoppedIngestion(stack, grace, 'parked', await systemFolder(grace, 'org_root'));
      await leave(ada, grace);
      const statusOf = async ({ jobId }: { jobId: string }) => (await db('jobs').where({ id: jobId }).first())?.status;
      await until('his own is cancelled', async () => (await statusOf(personal)) === 'cancelled');
      const gone = isOrganizationGone ? ada.orgId : grace.userId;
      const waits = async () =>
        (
          await db('jobs')
            .where({ id: `erase-${gone}` })
            .first()
        )?.stage === 'wait';
      await until('it waits for its day', waits);
      expect(await statusOf(shared)).equal(isOrganizationGone ? 'cancelled' : 'parked');
    });
  });
}
