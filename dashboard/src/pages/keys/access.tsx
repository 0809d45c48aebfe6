import type { ApiKey } from './key.tsx'

export type Preset = 'full' | 'read' | 'edges' | 'policies' | 'custom'

const reading = ['*.get', '*.list', 'ip_policies.rules', 'ip_restrictions.warnings']

/** Usual scopes under a name. Custom ones are typed. */
export const presets: readonly { value: Preset; title: string; detail: string; scopes: readonly string[] }[] = [
  { value: 'full', title: 'Full access', detail: 'Everything its owner can do', scopes: ['*'] },
  { value: 'read', title: 'Read only', detail: 'See everything, change nothing', scopes: reading },
  {
    value: 'edges',
    title: 'Manage edges',
    detail: 'Edges, routes and backends',
    scopes: [...reading, 'https_edges.*', 'https_edge_routes.*', 'tcp_edges.*', 'static_backends.*'],
  },
  {
    value: 'policies',
    title: 'Manage IP policies',
    detail: 'Policies and their rules',
    scopes: [...reading, 'ip_policies.*', 'ip_policy_rules.*'],
  },
  { value: 'custom', title: 'Custom', detail: 'Choose operations', scopes: [] },
]

const isSameSet = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((scope) => b.includes(scope))

/** The name of usual scopes, or the first of the others. */
export function Access({ apiKey: { scopes } }: { apiKey: ApiKey }) {
  const preset = presets.find((candidate) => isSameSet(candidate.scopes, scopes))
  if (preset) return <span className="tag">{preset.title}</span>
  return (
    <span className="tags">
      {scopes.slice(0, 2).map((scope) => (
        <span key={scope} className="tag mono">
          {scope}
        </span>
      ))}
      {scopes.length > 2 && <span className="tag">+{scopes.length - 2}</span>}
    </span>
  )
}

export const wordsOf = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean)
