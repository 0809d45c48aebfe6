import { useState } from 'react'
import { Link } from 'react-router'
import { Button } from '../../ui/button.tsx'
import { Icon, type IconName } from '../../ui/icons.tsx'
import { State } from '../../ui/state.tsx'
import { Ago } from '../../ui/time.tsx'
import '../../styles/alerts.css'
import { SilenceRule } from './silence.tsx'
import { useDestinations } from './use_destinations.ts'
import type { Names } from './use_names.ts'
import { type Alert, type AlertRule, isSilenced, type Kind, momentText } from './words.ts'

/** Conditions that visitors notice immediately. */
const urgent: readonly Kind[] = ['backend_down', 'errors']
const toneOf = ({ kind }: Pick<Alert, 'kind'>): 'refused' | 'warned' => (urgent.includes(kind) ? 'refused' : 'warned')

type Props = { alerts: readonly Alert[]; rules: readonly AlertRule[]; names: Names; isAdmin: boolean }

/** Firing alerts: what, since when, why, and where to look. */
export function Firing({ alerts, rules, names, isAdmin }: Props) {
  const [silencing, setSilencing] = useState<AlertRule>()
  if (alerts.length === 0) return <Quiet rules={rules} />
  return (
    <>
      <ul className="attention firing" aria-label="Firing now">
        {alerts.map((alert) => (
          <FiringAlert
            key={alert.id}
            rule={rules.find(({ id }) => id === alert.rule_id)}
            onSilence={setSilencing}
            {...{ alert, names, isAdmin }}
          />
        ))}
      </ul>
      {silencing && <SilenceRule rule={silencing} onClose={() => setSilencing(undefined)} />}
    </>
  )
}

type ItemProps = {
  alert: Alert
  rule: AlertRule | undefined
  names: Names
  isAdmin: boolean
  onSilence: (rule: AlertRule) => void
}

function FiringAlert({ alert, rule, names, isAdmin, onSilence }: ItemProps) {
  const place = names.placeOf(alert)
  const title = names.titleOf(alert)
  const silence = rule && isSilenced(rule) ? 'Silenced' : 'Silence'
  const icon: IconName = alert.unclear_since ? 'unknown' : toneOf(alert)
  return (
    <li>
      <span className={alert.unclear_since ? 'soft' : toneOf(alert)}>
        <Icon name={icon} />
      </span>
      <div>
        <p>
          <b className="strong">{title}</b>{' '}
          <span className="soft">
            began <Ago at={alert.since} />
          </span>
        </p>
        <p>
          {alert.reason} <Sent {...{ alert, rule, isAdmin }} />
        </p>
        {alert.unclear_since && (
          <p>
            <State health="unknown">
              Not known whether it still holds, since {momentText(alert.unclear_since)}. It goes on firing.
            </State>
          </p>
        )}
      </div>
      <span className="tags">
        {place && (
          <Link className="button small" to={place.to} aria-label={`${place.words}: ${title}`}>
            {place.words}
          </Link>
        )}
        {isAdmin && rule && (
          <Button isSmall icon="mute" aria-label={`${silence}: ${title}`} onPress={() => onSilence(rule)}>
            {silence}
          </Button>
        )}
      </span>
    </li>
  )
}

/** Where the alert was sent. Only admins can read that; others see nothing. */
function Sent({ alert, rule, isAdmin }: Pick<ItemProps, 'alert' | 'rule' | 'isAdmin'>) {
  const destinations = useDestinations(isAdmin).data
  if (alert.notified_at !== null) {
    if (destinations?.length === 0) return <>No destination gets alerts, so it is only listed here.</>
    return <>Handed to destinations at {momentText(alert.notified_at)}.</>
  }
  if (rule && isSilenced(rule)) return <>Not sent: silenced until {momentText(rule.silenced_until ?? '')}.</>
  return <>Not sent yet.</>
}

/** Nothing fires, which is good news only if the rules could be evaluated. */
function Quiet({ rules }: { rules: readonly AlertRule[] }) {
  const watching = rules.filter(({ enabled }) => enabled)
  if (watching.length === 0) return null
  const unknown = watching.filter(({ state }) => state === 'unknown').length
  return (
    <p>
      {unknown === 0 ? (
        <State health="up">No alert is firing</State>
      ) : (
        <State health="unknown">
          No alert is firing, but {unknown === 1 ? '1 rule is' : `${unknown} rules are`} unknown
        </State>
      )}
    </p>
  )
}
