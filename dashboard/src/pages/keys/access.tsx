import { matches } from '../../../../src/kernel/scopes.ts'
import { operations } from '../../generated/operations.ts'
import { CardChoice } from '../../ui/card_choice.tsx'
import { Field } from '../../ui/field.tsx'
import type { ApiKey } from './key.tsx'

export type Preset = 'read' | 'deploy' | 'policies' | 'full' | 'custom'

const allowedBy = (scopes: readonly string[]) =>
  operations.filter(({ id }) => scopes.some((scope) => matches(scope, id)))

const usualReads = ['*.get', '*.list']
/** Includes reads with unusual names, such as a backend's health. */
const reading = [
  ...usualReads,
  ...operations
    .filter(({ id, isRead }) => isRead && !usualReads.some((scope) => matches(scope, id)))
    .map(({ id }) => id),
]
/** `tcp_edges.*` for every kind of resource whose name matches. */
const changing = (names: RegExp) => {
  const resources = new Set(operations.map(({ id }) => id.split('.')[0] ?? ''))
  return [...resources].filter((name) => names.test(name)).map((name) => `${name}.*`)
}
/** Drops scopes that another pattern covers. */
const withoutRepeats = (scopes: readonly string[]) =>
  scopes.filter((scope) => !scopes.some((other) => other !== scope && matches(other, scope)))

type PresetOf = { value: Preset; title: string; detail: string; scopes: readonly string[] }

/** Named sets of scopes, from this version's operations. Custom scopes are typed. */
export const presets: readonly PresetOf[] = [
  { value: 'read', title: 'Read only', detail: 'See everything, change nothing', scopes: reading },
  {
    value: 'deploy',
    title: 'Deploy pipeline',
    detail: 'Change edges, routes and backends',
    scopes: withoutRepeats([...reading, ...changing(/(^|_)(backends|edges|edge_routes|domains|certificates)$/)]),
  },
  {
    value: 'policies',
    title: 'IP policies',
    detail: 'Change policies and their rules',
    scopes: withoutRepeats([...reading, 'ip_policies.*', 'ip_policy_rules.*']),
  },
  { value: 'full', title: 'Full access', detail: 'Everything its owner can do', scopes: ['*'] },
  { value: 'custom', title: 'Custom', detail: 'Choose operations', scopes: [] },
]

const isSameSet = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((scope) => b.includes(scope))

/** A read-only key keeps its preset even if a later version adds reads. */
export function presetOf(scopes: readonly string[]): PresetOf | undefined {
  const same = presets.find((candidate) => isSameSet(candidate.scopes, scopes))
  if (same) return same
  const onlyReads = usualReads.every((scope) => scopes.includes(scope)) && allowedBy(scopes).every((one) => one.isRead)
  return onlyReads ? presets[0] : undefined
}

/** The preset's name, or the first of the custom scopes. */
export function Access({ apiKey: { scopes } }: { apiKey: ApiKey }) {
  const preset = presetOf(scopes)
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

export type AccessValues = { preset: Preset; scopes: string }
export const scopesOf = ({ preset, scopes }: AccessValues): string[] =>
  preset === 'custom' ? wordsOf(scopes) : [...(presets.find(({ value }) => value === preset)?.scopes ?? [])]

type Props = { values: AccessValues; onPreset: (preset: Preset) => void; onScopes: (scopes: string) => void }

/** The scopes of a key, preset or typed, with the operations that they cover. */
export function AccessFields({ values, onPreset, onScopes }: Props) {
  const scopes = scopesOf(values)
  return (
    <>
      <CardChoice label="Access" name="scopes" value={values.preset} onChange={onPreset} options={presets} />
      {values.preset === 'custom' && (
        <Field
          label="Operations"
          name="scopes"
          mono
          rows={2}
          value={values.scopes}
          onChange={onScopes}
          placeholder="*.list ip_checks.create"
          hint="Operation ids and patterns, separated by spaces."
        />
      )}
      <AllowedOperations scopes={scopes} />
    </>
  )
}

export function AllowedOperations({ scopes }: { scopes: readonly string[] }) {
  const allowed = allowedBy(scopes)
  return (
    <details className="allows">
      <summary>
        Allows {allowed.length} of {operations.length} operations
      </summary>
      <ul className="operations">
        {allowed.map(({ id, summary }) => (
          <li key={id}>
            <span className="mono">{id}</span> <span className="soft">{summary}</span>
          </li>
        ))}
      </ul>
    </details>
  )
}
