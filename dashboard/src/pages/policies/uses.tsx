import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { Link } from 'react-router'
import { queries } from '../../api/queries.ts'
import { refuses, traffic } from '../../traffic.ts'
import { Badge } from '../../ui/badge.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'

export type Use = { to: string; name: string; how: string; isEnforced: boolean }
type Module = { ip_policies: readonly { id: string }[] } | null

/** Everything that uses a policy. Undefined until loaded. */
export function useUsesOf(): ((policyId: string) => Use[]) | undefined {
  const restrictions = useQuery(queries.restrictions()).data
  const tcp = useQuery(queries.tcpEdges()).data
  const https = useQuery(queries.httpsEdges()).data
  return useMemo(() => {
    if (!restrictions || !tcp || !https) return undefined
    const byPolicy = new Map<string, Use[]>()
    const note = (module: Module, use: Use) => {
      for (const { id } of module?.ip_policies ?? []) {
        const known = byPolicy.get(id)
        if (known) known.push(use)
        else byPolicy.set(id, [use])
      }
    }
    for (const restriction of restrictions) {
      const { id, description, type, enforced } = restriction
      const how = `Restriction of ${traffic[type].title}`
      note(restriction, { to: `/restrictions/${id}`, name: description ?? id, how, isEnforced: enforced })
    }
    for (const { id, description, hostports, ip_restriction } of tcp) {
      const name = description ?? (hostports.join(', ') || id)
      const isEnforced = refuses(ip_restriction)
      note(ip_restriction, { to: `/edges/${id}`, name, how: 'TCP edge', isEnforced })
    }
    for (const { id, hostports, routes } of https)
      for (const { match, ip_restriction } of routes) {
        const name = `${hostports[0] ?? id}${match}`
        const isEnforced = refuses(ip_restriction)
        note(ip_restriction, { to: `/edges/${id}`, name, how: 'Route', isEnforced })
      }
    return (policyId) => byPolicy.get(policyId) ?? []
  }, [restrictions, tcp, https])
}

/** Whether anything enforces the policy. */
export const stateOf = (uses: readonly Use[]): 'enforced' | 'warns' | 'unused' =>
  uses.some(({ isEnforced }) => isEnforced) ? 'enforced' : uses.length ? 'warns' : 'unused'

export function StateOfUses({ uses }: { uses: readonly Use[] }) {
  const state = stateOf(uses)
  if (state === 'enforced') return <Badge tone="allowed">Enforced</Badge>
  return state === 'warns' ? <Badge tone="warned">Warns only</Badge> : <Badge tone="neutral">Not in use</Badge>
}

const columns: Column<Use>[] = [
  {
    title: 'Name',
    className: 'a1',
    isRowHead: true,
    sortBy: ({ name }) => name,
    cell: ({ to, name }) => (
      <Link className="row-link" to={to}>
        {name}
      </Link>
    ),
  },
  { title: 'Kind', className: 'b1', sortBy: ({ how }) => how, cell: ({ how }) => how },
  {
    title: 'Mode',
    className: 'a2',
    cell: ({ isEnforced }) =>
      isEnforced ? <Badge tone="allowed">Enforced</Badge> : <Badge tone="warned">Warns only</Badge>,
  },
]

export function UsesTable({ uses }: { uses: readonly Use[] }) {
  if (uses.length === 0)
    return (
      <div className="frame">
        <Empty title="Not in use">It takes effect through restrictions, TCP edges and routes that use it.</Empty>
      </div>
    )
  return <DataTable label="Used by" rows={uses} keyOf={({ to, name }) => `${to} ${name}`} columns={columns} />
}
