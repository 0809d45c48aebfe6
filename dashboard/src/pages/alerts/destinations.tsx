import { useMemo, useState } from 'react'
import { Link } from 'react-router'
import { Button } from '../../ui/button.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { Skeleton } from '../../ui/loading.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { Section } from '../../ui/section.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'
import { CreateWebhook, formats } from '../webhooks/forms.tsx'
import { nameColumn, statusColumn, type Webhook } from '../webhooks/webhook.tsx'
import { useDestinations } from './use_destinations.ts'

/** Destinations of alerts, shared by all rules of the account. */
export function Destinations({ isAdmin }: { isAdmin: boolean }) {
  const { data, error } = useDestinations(isAdmin)
  const [isCreating, setCreating] = useState(false)
  const columns = useMemo(destinationColumns, [])
  return (
    <Section
      title="Sent to"
      note="by all rules"
      action={
        isAdmin && (
          <span className="section-tools">
            <Link to="/webhooks">All webhooks</Link>
            <Button isSmall icon="plus" onPress={() => setCreating(true)}>
              Add destination
            </Button>
          </span>
        )
      }
    >
      {!isAdmin ? (
        <p className="soft">Only admins see where alerts are sent.</p>
      ) : data === undefined ? (
        error != null ? (
          <ProblemNote error={error} />
        ) : (
          <Skeleton lines={2} />
        )
      ) : data.length === 0 ? (
        <div className="frame">
          <Empty title="Alerts are not sent anywhere">
            They are listed here only. Add a chat, an e-mail address or a program that gets them.
          </Empty>
        </div>
      ) : (
        <DataTable label="Destinations" rows={data} keyOf={({ id }) => id} columns={columns} isTwoLine />
      )}
      {isCreating && <CreateWebhook isForAlerts onClose={() => setCreating(false)} />}
    </Section>
  )
}

const destinationColumns = (): Column<Webhook>[] => [
  nameColumn('Destination'),
  { title: 'As', className: 'b1', cell: ({ format }) => formats[format].label },
  statusColumn('b2'),
]
