import { useDeferredValue, useMemo, useState } from 'react'
import { type Draft, keyOf, matcherOf, type Rule } from '../../rules.ts'
import { Badge } from '../../ui/badge.tsx'
import { Field } from '../../ui/field.tsx'
import { Icon } from '../../ui/icons.tsx'
import { type Column, VirtualTable } from '../../ui/table_rows.tsx'
import { ago } from '../../ui/time.tsx'

type Props = {
  rules: readonly Rule[]
  draft: Draft
  onRemove: (rule: Rule) => void
}

const count = new Intl.NumberFormat('en')

export function RuleTable({ rules, draft, onRemove }: Props) {
  const [search, setSearch] = useState('')
  // Typing stays quick: React may draw the letters first, and the rows of 100,000 rules after them.
  const wanted = useDeferredValue(search)
  const found = useMemo(() => {
    const matches = matcherOf(wanted)
    return wanted.trim() ? rules.filter(matches) : rules
  }, [rules, wanted])
  const columns = useMemo(() => columnsFor(draft, onRemove), [draft, onRemove])
  return (
    <>
      <header>
        <h2>
          {wanted.trim()
            ? `${count.format(found.length)} of ${count.format(rules.length)}`
            : count.format(rules.length)}{' '}
          {rules.length === 1 ? 'rule' : 'rules'}
        </h2>
      </header>
      <div className="search">
        <Field
          label="Search"
          type="search"
          value={search}
          onChange={setSearch}
          placeholder="203.0.113.7, 10.0., office…"
          hint="Matches ranges and descriptions. A full address finds every range that contains it."
        />
      </div>
      {found.length === 0 ? (
        <p className="empty">
          {rules.length === 0 ? 'No rules. This policy allows no address.' : 'No matching rules.'}
        </p>
      ) : (
        <VirtualTable label="Rules" rows={found} keyOf={keyOf} columns={columns} rowHeight={40} />
      )}
    </>
  )
}

function Expiry({ at }: { at: string | undefined }) {
  if (!at) return null
  return Date.parse(at) <= Date.now() ? (
    <Badge tone="warned">Expired</Badge>
  ) : (
    <span className="fine">expires {ago(at)}</span>
  )
}

const columnsFor = (draft: Draft, onRemove: (rule: Rule) => void): Column<Rule>[] => [
  {
    title: 'Action',
    className: 'action',
    cell: ({ action }) => (
      <Badge tone={action === 'allow' ? 'allowed' : 'refused'}>{action === 'allow' ? 'Allow' : 'Deny'}</Badge>
    ),
  },
  { title: 'Range', className: 'range mono', cell: ({ cidr }) => cidr },
  {
    title: 'Description',
    className: 'text',
    cell: (rule) => (
      <>
        {draft.added.has(keyOf(rule)) && <Badge tone="neutral">Unsaved</Badge>} {rule.description}{' '}
        <Expiry at={rule.expires_at} />
      </>
    ),
  },
  {
    title: 'Remove',
    className: 'remove',
    // The browser's own button: thirty of the library's take longer to draw than a frame has.
    cell: (rule) => (
      <button type="button" className="button quiet icon-only" onClick={() => onRemove(rule)}>
        <Icon name="close" />
        <span className="for-readers">{`Remove ${rule.action} ${rule.cidr}`}</span>
      </button>
    ),
  },
]
