import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Loaded } from '../../ui/loading.tsx'
import { useDestinations } from '../alerts/use_destinations.ts'
import { Line } from './line.tsx'

const counted = (count: number, one: string, many: string): string => (count === 1 ? `1 ${one}` : `${count} ${many}`)

export function Notifications({ caller: { role } }: { caller: Shapes['Caller'] }) {
  const isAdmin = role === 'admin'
  const rules = useQuery(queries.alertRules())
  const webhooks = useQuery({ ...queries.webhooks(), enabled: isAdmin })
  const forAlerts = useDestinations(isAdmin).data
  return (
    <>
      <Loaded query={rules} lines={1}>
        {(all) => (
          <Line title="Alert rules" end={<Link to="/alerts">Alerts</Link>}>
            {all.length === 0
              ? 'Nothing is watched yet.'
              : `${counted(all.filter(({ enabled }) => enabled).length, 'rule is', 'rules are')} evaluated, of ${all.length}.`}
          </Line>
        )}
      </Loaded>
      {isAdmin && (
        <Loaded query={webhooks} lines={1}>
          {(all) => (
            <Line title="Webhooks, chats and e-mail" end={<Link to="/webhooks">Webhooks</Link>}>
              {all.length === 0
                ? 'No destination yet: alerts and changes are not sent anywhere.'
                : `${counted(all.length, 'destination', 'destinations')}. ${counted(forAlerts?.length ?? 0, 'gets', 'get')} alerts.`}
            </Line>
          )}
        </Loaded>
      )}
    </>
  )
}
