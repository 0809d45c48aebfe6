import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { queries } from '../../api/queries.ts'
import { Section } from '../../ui/section.tsx'
import { Firing } from '../alerts/firing.tsx'
import { useNames } from '../alerts/use_names.ts'
import type { Alert } from '../alerts/words.ts'

const shown = 5

export function FiringAlerts({ alerts, isAdmin }: { alerts: readonly Alert[]; isAdmin: boolean }) {
  const rules = useQuery(queries.alertRules()).data ?? []
  const names = useNames(isAdmin)
  return (
    <Section
      title="Alerts"
      note={alerts.length > shown && `${shown} of ${alerts.length}`}
      action={<Link to="/alerts">All alerts</Link>}
    >
      <Firing alerts={alerts.slice(0, shown)} {...{ rules, names, isAdmin }} />
    </Section>
  )
}
