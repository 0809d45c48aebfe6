import { queryOptions } from '@tanstack/react-query'
import { answerOf, api } from '../../api/client.ts'
import { hasSameRules, type Rule } from '../../rules.ts'

export const readRulesWithIds = async (id: string) =>
  (await answerOf(api.GET('/ip_policies/{id}/rules', { params: { path: { id } } }))).rules

/** All rules of a policy in the form for writing: without ids, which a new set does not contain. */
export async function readRules(id: string): Promise<Rule[]> {
  return (await readRulesWithIds(id)).map(({ id: _, ...rule }) => rule)
}

export const rulesOf = (id: string) =>
  queryOptions({
    queryKey: ['get', '/ip_policies/{id}/rules', id],
    // Keeps the array if nothing changed, so that nothing is rendered or requested again. The library's own comparison
    // takes longer for 100,000 rules than rendering them.
    structuralSharing: (before, now) => (hasSameRules(before as Rule[] | undefined, now as Rule[]) ? before : now),
    refetchOnWindowFocus: false,
    queryFn: () => readRules(id),
  })
