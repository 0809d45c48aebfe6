import { queryOptions } from '@tanstack/react-query'
import { answerOf, api } from '../../api/client.ts'
import type { Rule } from '../../rules.ts'

export const readRulesWithIds = async (id: string) =>
  (await answerOf(api.GET('/ip_policies/{id}/rules', { params: { path: { id } } }))).rules

/** All rules of a policy, in the form in which they are written: without ids, which a new set does not name. */
export async function readRules(id: string): Promise<Rule[]> {
  return (await readRulesWithIds(id)).map(({ id: _, ...rule }) => rule)
}

export const rulesOf = (id: string) =>
  queryOptions({
    queryKey: ['get', '/ip_policies/{id}/rules', id],
    // Comparing 100,000 rules with those before, to keep the same objects, would take longer than drawing them.
    structuralSharing: false,
    refetchOnWindowFocus: false,
    queryFn: () => readRules(id),
  })
