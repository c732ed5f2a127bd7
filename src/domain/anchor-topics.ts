import { cosine } from './alignment-score.ts';

/** A word that is near to as many of an agent's topics is of its subject; the nearest alone may be a chance. */
const nearestTopics = 3;

/**
 * How much a word is of the subject that the topics belong to: the mean of its three largest cosines. The centroid of
 * topics, and the vector of a whole persona, are near to nothing that the agent is asked about.
 */
export function topicRelevance(vector: Float32Array, topics: readonly Float32Array[]): number {
  const nearest = topics
    .map((topic) => cosine(vector, topic))
    .sort((a, b) => b - a)
    .slice(0, nearestTopics);
  return nearest.reduce((sum, similarity) => sum + similarity, 0) / Math.max(1, nearest.length);
}
