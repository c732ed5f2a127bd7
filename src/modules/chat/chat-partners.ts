import type { Knex } from 'knex';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { publicationProblems } from '#src/domain/agents/drafts.ts';
import { appError, fieldError, fieldsError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { Chat, ChatAgent, ChatDraftVersion } from './chat.model.ts';
import { createChatRepository } from './chat.repository.ts';

/** What a message names to say who answers it; both are null in most messages of an existing chat. */
type NamedPartner = { agentId: string | null; draftVersionId: string | null };

/** Who answers in a chat: an agent, or a draft version as the agent that would be published from it. */
export type ChatPartner = { agent: ChatAgent; draftVersionId: string | null };

/** Finds who answers a message, and refuses users who may not talk to them. */
export function createChatPartnerFinder(deps: {
  db: Knex;
  models: Pick<ModelsService, 'chatModels' | 'chatModelOrDefault'>;
}) {
  const { models } = deps;
  const chats = createChatRepository(deps.db);

  /**
   * Throws `version_not_found` or `forbidden` if the caller does not own the draft, and `not_ready` if the version has
   * no prompt or names a model that the deployment does not offer.
   */
  async function ofVersion(actor: Actor, versionId: string): Promise<ChatPartner> {
    const version = await chats.findDraftVersion(actor.orgId, versionId);
    if (version === undefined || !mayPerformAction(actor, 'draft:read', version)) throw appError('version_not_found');
    if (!mayPerformAction(actor, 'draft:write', version)) {
      throw appError('forbidden', { detail: 'Only the owner of a draft may chat with its versions.' });
    }
    const offered = await models.chatModels();
    const missing = publicationProblems(version, offered.all).filter(({ path }) => path !== 'anchor_words');
    if (missing.length > 0) throw fieldsError('not_ready', missing);
    return { agent: agentOfVersion(version, offered.default), draftVersionId: versionId };
  }

  async function findAgent(orgId: string, agentId: string): Promise<ChatAgent | undefined> {
    const agent = await chats.findAgent(orgId, agentId);
    return agent && { ...agent, chatModel: models.chatModelOrDefault(agent.chatModel) };
  }

  return {
    async ofNewChat(actor: Actor, { agentId, draftVersionId }: NamedPartner): Promise<ChatPartner> {
      if (draftVersionId !== null) return ofVersion(actor, draftVersionId);
      const agent = await findAgent(actor.orgId, agentId ?? '');
      if (agent === undefined || agent.deletedAt !== null || !mayPerformAction(actor, 'agent:read', agent)) {
        throw appError('agent_not_found');
      }
      return { agent, draftVersionId: null };
    },

    async ofChat(actor: Actor, chat: Chat, named: NamedPartner): Promise<ChatPartner> {
      if (named.agentId !== null && named.agentId !== chat.agentId) {
        throw fieldError('agent_id', 'is not the agent of this chat');
      }
      if (named.draftVersionId !== null && named.draftVersionId !== chat.draftVersionId) {
        throw fieldError('draft_version_id', 'is not the version of this chat');
      }
      if (chat.draftVersionId !== null) return ofVersion(actor, chat.draftVersionId);
      const agent = await findAgent(actor.orgId, chat.agentId);
      if (agent === undefined || agent.deletedAt !== null) throw appError('agent_deleted');
      if (!mayPerformAction(actor, 'agent:read', agent)) throw appError('agent_not_found');
      return { agent, draftVersionId: null };
    },
  };
}

function agentOfVersion(version: ChatDraftVersion, defaultModel: string): ChatAgent {
  const { createdBy: _owner, ...fields } = version;
  return { ...fields, chatModel: version.chatModel ?? defaultModel, documentScope: null, deletedAt: null };
}
