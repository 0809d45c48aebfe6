import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { $api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Section } from '../ui/section.tsx'
import { Empty } from '../ui/states.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { Destinations } from './alerts/destinations.tsx'
import { Firing } from './alerts/firing.tsx'
import { EditRule } from './alerts/forms.tsx'
import { History } from './alerts/history.tsx'
import { RuleTable } from './alerts/rules.tsx'
import { useNames } from './alerts/use_names.ts'
import { type Alert, type AlertRule, isSilenced } from './alerts/words.ts'

export function Alerts() {
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  // A new rule is evaluated within seconds.
  const rules = useQuery({
    ...queries.alertRules(),
    refetchInterval: ({ state: { data } }) =>
      data?.some(({ enabled, evaluated_at }) => enabled && evaluated_at === null) ? 2_000 : 20_000,
  })
  const firing = useQuery(queries.firingAlerts())
  const names = useNames(isAdmin)
  const [isCreating, setCreating] = useState(false)
  useOpenOnArrival(() => isAdmin && setCreating(true))
  return (
    <>
      <PageHeader
        title="Alerts"
        summary={
          rules.data &&
          firing.data &&
          !(rules.isError || firing.isError) &&
          summaryOf(firing.data.alerts, firing.data.next_page_uri, rules.data)
        }
      >
        {isAdmin && (
          <Button kind="primary" icon="plus" onPress={() => setCreating(true)}>
            Create alert rule
          </Button>
        )}
      </PageHeader>
      <Loaded query={firing} lines={3}>
        {({ alerts }) => <Firing alerts={alerts} rules={rules.data ?? []} {...{ names, isAdmin }} />}
      </Loaded>
      <Section title="Rules" note={rules.data && rules.data.length > 0 && rules.data.length}>
        <Loaded query={rules} lines={4}>
          {(rows) =>
            rows.length === 0 ? (
              <NoRules isAdmin={isAdmin} onCreate={() => setCreating(true)} />
            ) : (
              <RuleTable rules={rows} {...{ names, isAdmin }} />
            )
          }
        </Loaded>
      </Section>
      <Destinations isAdmin={isAdmin} />
      <History names={names} />
      {isCreating && <EditRule names={names} onClose={() => setCreating(false)} />}
    </>
  )
}

function NoRules({ isAdmin, onCreate }: { isAdmin: boolean; onCreate: () => void }) {
  return (
    <div className="frame">
      <Empty
        title="Nothing is watched yet"
        actions={
          isAdmin && (
            <Button icon="plus" onPress={onCreate}>
              Create your first rule
            </Button>
          )
        }
      >
        A rule says what to watch: backends, nodes, certificates, errors, refused addresses, webhooks or rollouts.
      </Empty>
    </div>
  )
}

const counted = (count: number, one: string, many: string): string => (count === 1 ? `1 ${one}` : `${count} ${many}`)

/** Unknown states never count as fine. */
export function summaryOf(alerts: readonly Alert[], next: string | null, rules: readonly AlertRule[]): string {
  if (rules.length === 0 && alerts.length === 0) return 'No rule watches anything, so no alert can fire.'
  const unknown = rules.filter(({ state }) => state === 'unknown').length
  const silenced = alerts.filter(({ rule_id }) => isSilenced(rules.find(({ id }) => id === rule_id))).length
  const number =
    next === null ? counted(alerts.length, 'alert is', 'alerts are') : `More than ${alerts.length} alerts are`
  const firing = alerts.length === 0 ? 'No alert is firing' : `${number} firing`
  const parts = [firing, silenced > 0 && `${silenced} of them silenced`].filter(Boolean).join(', ')
  if (unknown > 0)
    return `${parts}. It is not known whether ${counted(unknown, 'rule has', 'rules have')} something to report.`
  return rules.every(({ state }) => state === 'disabled') ? `${parts}. All rules are disabled.` : `${parts}.`
}
