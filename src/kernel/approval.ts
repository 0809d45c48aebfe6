/** Kinds of resources that can need approval, and the first part of their operations' names. */
const operationsOf = {
  ip_policies: ['ip_policies', 'ip_policy_rules'],
  ip_restrictions: ['ip_restrictions'],
  access_tests: ['access_tests'],
  edges: ['tcp_edges', 'https_edges', 'https_edge_routes'],
  backends: ['static_backends', 'weighted_backends', 'failover_backends', 'http_response_backends'],
  reserved_domains: ['reserved_domains'],
} as const satisfies Record<string, readonly string[]>

export type ApprovalKind = keyof typeof operationsOf
export const approvalKinds = Object.keys(operationsOf) as ApprovalKind[]

/** If anything needs approval, so do changes to who can approve; otherwise they would bypass it. */
const always = ['users', 'identities', 'approval_policy']

const groupOf = (operation: string): string => operation.split('.')[0] ?? operation

const kindOfGroup = new Map<string, ApprovalKind>(
  approvalKinds.flatMap((kind) => operationsOf[kind].map((group) => [group, kind] as const)),
)

/** Whether changes by this operation can ever need approval. */
export const canNeedApproval = (operation: string): boolean =>
  kindOfGroup.has(groupOf(operation)) || always.includes(groupOf(operation))

/** Whether the operation needs approval if these kinds do. */
export function needsApproval(requiredFor: readonly string[], operation: string): boolean {
  if (requiredFor.length === 0) return false
  const group = groupOf(operation)
  return always.includes(group) || requiredFor.includes(kindOfGroup.get(group) ?? '')
}

/** Operation name in the audit log of a change that skipped its approval. */
export const breakGlassOperation = 'approval_policy.break_glass'
