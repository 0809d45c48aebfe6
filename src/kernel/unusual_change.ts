/** How much one change alters: the rules of a policy, or the account's edge resources. */
export type Extent = {
  readonly of: 'ip_policy_rules' | 'edge_entries'
  /** Id of the policy or the account. */
  readonly resource: string
  readonly before: number
  readonly added: number
  readonly removed: number
}

/** A change that exceeds both needs confirmation. */
export type UnusualAbove = { readonly entries: number; readonly percent: number }

/** The first entries never count as unusual, because there is nothing to compare them with. */
export const isUnusual = (
  { before, added, removed }: Pick<Extent, 'before' | 'added' | 'removed'>,
  { entries, percent }: UnusualAbove,
): boolean => before > 0 && [added, removed].some((changed) => changed > entries && changed * 100 > before * percent)

const number = new Intl.NumberFormat('en')

/** Completes a sentence such as 'The change …'. */
export function describeExtent({ of, resource, before, added, removed }: Extent): string {
  const deeds = [
    ...(removed > 0 ? [`removes ${number.format(removed)}`] : []),
    ...(added > 0 ? [`adds ${number.format(added)}`] : []),
  ].join(' and ')
  const owned = of === 'ip_policy_rules' ? `rules of ${resource}` : 'edges, routes and backends of the account'
  return `${deeds}; there are ${number.format(before)} ${owned}, and there would be ${number.format(before - removed + added)}`
}
