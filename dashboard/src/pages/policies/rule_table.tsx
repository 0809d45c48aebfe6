import { useDeferredValue, useMemo, useState } from 'react'
import { ago } from '../../../../src/kernel/ago.ts'
import { toRuleLine } from '../../../../src/kernel/ip/rule_line.ts'
import { useMayChange } from '../../api/may_change.ts'
import { type Draft, keyOf, matcherOf, type Rule } from '../../rules.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { Icon } from '../../ui/icons.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Toolbar } from '../../ui/toolbar.tsx'
import { type Evidence, evidenceColumns, unusedDays, Verdict } from './evidence.tsx'
import { RemoveAll } from './remove_all.tsx'

type Props = {
  /** Name of the policy, for the exported file. */
  name: string
  /** The rules with the draft applied. */
  rules: readonly Rule[]
  draft: Draft
  /** Undefined until loaded, or if unreadable. */
  evidence: Evidence | undefined
  onChange: (rule: Rule) => void
  onRemove: (rules: readonly Rule[]) => void
  onRestore: (rule: Rule) => void
}
type View = 'all' | Rule['action'] | 'expiring' | 'needless' | 'unused'

const count = new Intl.NumberFormat('en')
const testOf =
  (view: View, evidence: Evidence | undefined) =>
  (rule: Rule): boolean => {
    if (view === 'needless' || view === 'unused') return evidence?.[view].has(keyOf(rule)) ?? false
    if (view === 'expiring') return rule.expires_at !== undefined
    return view === 'all' || rule.action === view
  }

/** One pass, separate from the evidence, which loads later: a policy may have 100,000 rules. */
function countsOf(rules: readonly Rule[]) {
  const counts = { allow: 0, deny: 0, expiring: 0 }
  for (const { action, expires_at } of rules) {
    counts[action]++
    if (expires_at !== undefined) counts.expiring++
  }
  return counts
}

const countLeft = (keys: ReadonlySet<string>, { removed }: Draft): number =>
  removed.size === 0 ? keys.size : [...keys].filter((key) => !removed.has(key)).length

export function RuleTable({ name, rules, draft, evidence, onChange, onRemove, onRestore }: Props) {
  const [search, setSearch] = useState('')
  const [view, setView] = useState<View>('all')
  const [selected, setSelected] = useState<ReadonlySet<string>>(noKeys)
  // Deferred, so that typing stays responsive while 100,000 rows are filtered.
  const wanted = useDeferredValue(search)
  const all = useMemo(() => withDraftFirst(rules, draft), [rules, draft])
  // Other views are not rendered again when it arrives.
  const byEvidence = view === 'needless' || view === 'unused' ? evidence : undefined
  const found = useMemo(() => {
    const matches = matcherOf(wanted)
    const seen = view === 'all' ? all : all.filter(testOf(view, byEvidence))
    return wanted.trim() ? seen.filter(matches) : seen
  }, [all, wanted, view, byEvidence])
  const counts = useMemo(() => countsOf(rules), [rules])
  const mayChange = useMayChange()
  const columns = useMemo(() => {
    const shown = columnsFor({ draft, evidence, onChange, onRemove, onRestore })
    return mayChange ? [selectColumn(found, selected, setSelected), ...shown] : shown.slice(0, -1)
  }, [draft, evidence, found, selected, onChange, onRemove, onRestore, mayChange])
  const isFiltered = wanted.trim() !== '' || view !== 'all'
  return (
    <>
      <Toolbar
        search={search}
        onSearch={setSearch}
        placeholder="Address, range or description"
        chosen={view}
        onChoose={setView}
        chips={[
          { value: 'all', label: 'All rules', count: rules.length },
          { value: 'allow', label: 'Allow', count: counts.allow },
          { value: 'deny', label: 'Deny', count: counts.deny },
          { value: 'expiring', label: 'With an expiry', count: counts.expiring },
          ...(evidence
            ? ([
                { value: 'needless', label: 'Never decides', count: countLeft(evidence.needless, draft) },
                { value: 'unused', label: `Unused ${unusedDays} days`, count: countLeft(evidence.unused, draft) },
              ] as const)
            : []),
        ]}
        end={
          <button
            type="button"
            className="button quiet icon-only"
            aria-label="Export rules"
            title="Export rules as text"
            onClick={() =>
              exportRules(
                name,
                found.filter((rule) => !draft.removed.has(keyOf(rule))),
              )
            }
          >
            <Icon name="download" />
          </button>
        }
      />
      {(view === 'needless' || view === 'unused') && (
        <RemoveAll
          view={view}
          rules={found.filter((rule) => !draft.removed.has(keyOf(rule)))}
          evidence={evidence}
          onRemove={onRemove}
        />
      )}
      {selected.size > 0 && (
        <section className="selection" aria-label="Selection">
          <span>{selected.size === 1 ? '1 rule selected' : `${count.format(selected.size)} rules selected`}</span>
          <Button
            isSmall
            onPress={() => {
              onRemove(rules.filter((rule) => selected.has(keyOf(rule))))
              setSelected(noKeys)
            }}
          >
            Remove
          </Button>
          <Button isSmall kind="quiet" onPress={() => setSelected(noKeys)}>
            Clear selection
          </Button>
        </section>
      )}
      <h2 className="for-readers">
        {isFiltered ? `${count.format(found.length)} of ${count.format(rules.length)}` : count.format(rules.length)}{' '}
        {rules.length === 1 ? 'rule' : 'rules'}
      </h2>
      {found.length === 0 ? (
        <div className="frame">
          {rules.length === 0 ? (
            <Empty title="No rules yet">No rules. This policy allows no address.</Empty>
          ) : (
            <Empty title="No matching rules" />
          )}
        </div>
      ) : (
        <DataTable
          label="Rules"
          rows={found}
          keyOf={keyOf}
          columns={columns}
          rowClass={(rule) =>
            draft.added.has(keyOf(rule)) ? 'added' : draft.removed.has(keyOf(rule)) ? 'removed' : undefined
          }
        />
      )}
    </>
  )
}

/** Additions come first; removals stay visible until saved. */
function withDraftFirst(rules: readonly Rule[], draft: Draft): readonly Rule[] {
  if (draft.added.size + draft.removed.size === 0) return rules
  const kept = rules.filter((rule) => !draft.added.has(keyOf(rule)))
  return [...draft.added.values(), ...draft.removed.values(), ...kept]
}

function Review({ rule, draft, evidence }: { rule: Rule } & Pick<Props, 'draft' | 'evidence'>) {
  if (draft.added.has(keyOf(rule))) return <span className="tag">Will be added</span>
  if (draft.removed.has(keyOf(rule))) return <span className="tag">Will be removed</span>
  const { expires_at: at } = rule
  if (!at) return <Verdict rule={rule} evidence={evidence} />
  return Date.parse(at) <= Date.now() ? (
    <Badge tone="warned">Expired</Badge>
  ) : (
    <span className="soft">Expires {ago(at)}</span>
  )
}

const noKeys: ReadonlySet<string> = new Set()

/** Checkboxes per row; the one in the header selects all filtered rows. */
const selectColumn = (
  found: readonly Rule[],
  selected: ReadonlySet<string>,
  onSelect: (keys: ReadonlySet<string>) => void,
): Column<Rule> => ({
  title: 'Select',
  className: 'select-cell hide-small',
  width: '44px',
  head: (
    <input
      type="checkbox"
      aria-label="Select all rules shown"
      checked={selected.size > 0 && selected.size >= found.length}
      onChange={({ target }) => onSelect(target.checked ? new Set(found.map(keyOf)) : noKeys)}
    />
  ),
  cell: (rule) => (
    <input
      type="checkbox"
      aria-label={`Select ${rule.action} ${rule.cidr}`}
      checked={selected.has(keyOf(rule))}
      onChange={({ target }) => {
        const next = new Set(selected)
        if (target.checked) next.add(keyOf(rule))
        else next.delete(keyOf(rule))
        onSelect(next)
      }}
    />
  ),
})

/** Omits empty metadata: readers of the file want ranges. */
const lineOf = (rule: Rule): string => toRuleLine(rule).replace(/ metadata=(?= |$)/, '')

/** Text in the format that the import and the API read. */
function exportRules(name: string, rules: readonly Rule[]): void {
  const file = new Blob([`${rules.map(lineOf).join('\n')}\n`], { type: 'text/plain' })
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = `${name.replaceAll(/[^\w.-]+/g, '-')}.txt`
  link.click()
  URL.revokeObjectURL(link.href)
}

type Acts = Pick<Props, 'draft' | 'evidence' | 'onChange' | 'onRemove' | 'onRestore'>

const columnsFor = ({ draft, evidence, onChange, onRemove, onRestore }: Acts): Column<Rule>[] => [
  {
    title: 'Action',
    className: 'b2',
    width: '110px',
    cell: ({ action }) => (
      <Badge tone={action === 'allow' ? 'allowed' : 'refused'}>{action === 'allow' ? 'Allow' : 'Deny'}</Badge>
    ),
  },
  { title: 'Range', className: 'a1 range mono', width: '260px', cell: ({ cidr }) => cidr },
  { title: 'Description', className: 'b1 text', cell: ({ description }) => description },
  ...(evidence ? evidenceColumns(evidence) : []),
  {
    title: 'Review',
    className: 'c1',
    width: '250px',
    cell: (rule) => <Review rule={rule} draft={draft} evidence={evidence} />,
  },
  {
    title: 'Actions',
    titleHidden: true,
    className: 'menu-cell a2',
    width: '44px',
    cell: (rule) => (
      <MoreMenu
        label={`Actions for ${rule.action} ${rule.cidr}`}
        groups={() => [
          {
            entries: [
              ...(draft.removed.has(keyOf(rule))
                ? [{ label: 'Keep rule', icon: 'rotate' as const, onAction: () => onRestore(rule) }]
                : [
                    { label: 'Edit rule…', icon: 'edit' as const, onAction: () => onChange(rule) },
                    { label: 'Remove rule', icon: 'trash' as const, isDanger: true, onAction: () => onRemove([rule]) },
                  ]),
            ],
          },
        ]}
      />
    ),
  },
]
