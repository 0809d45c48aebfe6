import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { Link } from 'react-router'
import { answerOf, api } from '../../api/client.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { type Health, State } from '../../ui/state.tsx'
import { Switch } from '../../ui/switch.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'
import { DeleteRule, EditRule } from './forms.tsx'
import { SilenceRule } from './silence.tsx'
import { TestRule } from './test_rule.tsx'
import type { Names } from './use_names.ts'
import { type AlertRule, conditionOf, holdingOf, isSilenced, kinds, momentText, nameOfRule } from './words.ts'

type Open = { what: 'test' | 'edit' | 'silence' | 'delete'; rule: AlertRule }
type Act = { open: (open: Open) => void; enable: (rule: AlertRule, enabled: boolean) => void }

export function RuleTable({ rules, names, isAdmin }: { rules: readonly AlertRule[]; names: Names; isAdmin: boolean }) {
  const [open, setOpen] = useState<Open>()
  const [problem, setProblem] = useState<unknown>()
  const refresh = useRefresh()
  const history = useQuery(queries.alerts()).data
  const columns = useMemo(() => {
    const lastFired = new Map<string, string>()
    for (const { rule_id, fired_at } of history ?? [])
      if (fired_at && (lastFired.get(rule_id) ?? '') < fired_at) lastFired.set(rule_id, fired_at)
    const enable = (rule: AlertRule, enabled: boolean) => {
      setProblem(undefined)
      answerOf(api.PATCH('/alert_rules/{id}', { params: { path: { id: rule.id } }, body: { enabled } }))
        .then(() => refresh('/alert'))
        .catch(setProblem)
    }
    return columnsFor({ names, lastFired: history && lastFired, act: isAdmin ? { open: setOpen, enable } : undefined })
  }, [names, history, isAdmin, refresh])
  const close = () => setOpen(undefined)
  return (
    <>
      {problem !== undefined && <ProblemNote error={problem} />}
      <DataTable label="Alert rules" rows={rules} keyOf={({ id }) => id} columns={columns} isTwoLine />
      {open?.what === 'test' && <TestRule rule={open.rule} onClose={close} />}
      {open?.what === 'edit' && <EditRule rule={open.rule} names={names} onClose={close} />}
      {open?.what === 'silence' && <SilenceRule rule={open.rule} onClose={close} />}
      {open?.what === 'delete' && <DeleteRule rule={open.rule} onClose={close} />}
    </>
  )
}

type Given = { names: Names; lastFired: ReadonlyMap<string, string> | undefined; act: Act | undefined }

const columnsFor = ({ names, lastFired, act }: Given): Column<AlertRule>[] => [
  {
    title: 'When',
    className: 'a1',
    width: '40%',
    isRowHead: true,
    sortBy: conditionOf,
    cell: (rule) => (
      <span className="two">
        <span>
          {conditionOf(rule)} <span className="soft regular">{holdingOf(rule)}</span>
        </span>
        {rule.description && <small>{rule.description}</small>}
      </span>
    ),
  },
  {
    title: 'Watches',
    className: 'b1',
    cell: ({ kind, resource_id: id }) => {
      const to = id === null ? undefined : names.placeOf({ kind, resource_id: id })?.to
      if (id === null) return kinds[kind].everything
      return to ? <Link to={to}>{names.nameOf(id)}</Link> : names.nameOf(id)
    },
  },
  {
    title: 'State',
    className: 'c1',
    sortBy: ({ state }) => states[state].rank,
    cell: (rule) => <RuleState rule={rule} lastFired={lastFired && (lastFired.get(rule.id) ?? null)} />,
  },
  ...(act ? [actionColumn(act)] : []),
]

const actionColumn = ({ open, enable }: Act): Column<AlertRule> => ({
  title: 'Actions',
  titleHidden: true,
  className: 'a2 rule-actions',
  width: '180px',
  cell: (rule) => (
    <span className="rule-buttons">
      <Button kind="quiet" isSmall aria-label={`Test ${nameOfRule(rule)}`} onPress={() => open({ what: 'test', rule })}>
        Test
      </Button>
      <Switch isSelected={rule.enabled} labelHidden onChange={(enabled) => enable(rule, enabled)}>
        {`Evaluate ${nameOfRule(rule)}`}
      </Switch>
      <MoreMenu
        label={`Actions for ${nameOfRule(rule)}`}
        groups={() => [
          {
            entries: [
              { label: 'Edit…', icon: 'edit', onAction: () => open({ what: 'edit', rule }) },
              {
                label: isSilenced(rule) ? 'Change silence…' : 'Silence…',
                icon: 'mute',
                onAction: () => open({ what: 'silence', rule }),
              },
              {
                label: 'Delete rule…',
                icon: 'trash',
                isDanger: true,
                onAction: () => open({ what: 'delete', rule }),
              },
            ],
          },
        ]}
      />
    </span>
  ),
})

const states: Record<AlertRule['state'], { health?: Health; word: string; rank: number }> = {
  firing: { health: 'down', word: 'Firing', rank: 0 },
  unknown: { health: 'unknown', word: 'Unknown', rank: 1 },
  fine: { health: 'up', word: 'Fine', rank: 2 },
  disabled: { word: 'Disabled', rank: 3 },
}
const staleAfterMs = 2 * 60_000

/** `lastFired`: null if never, undefined if unknown. */
function RuleState({ rule, lastFired }: { rule: AlertRule; lastFired: string | null | undefined }) {
  const { health, word } = states[rule.state]
  return (
    <span className="two">
      {health ? <State health={health}>{word}</State> : <span className="soft">{word}</span>}
      <small>
        {isSilenced(rule) ? (
          `Silenced until ${momentText(rule.silenced_until ?? '')}`
        ) : rule.state === 'unknown' ? (
          <WhyUnknown rule={rule} />
        ) : lastFired ? (
          <>
            Last fired <Ago at={lastFired} />
          </>
        ) : (
          lastFired === null && 'Has not fired'
        )}
      </small>
    </span>
  )
}

function WhyUnknown({ rule: { evaluated_at: at } }: { rule: AlertRule }) {
  if (at === null) return <>Not evaluated yet</>
  if (Date.now() - Date.parse(at) > staleAfterMs)
    return (
      <>
        Last evaluated <Ago at={at} />
      </>
    )
  return <>Not known of everything that it watches</>
}
