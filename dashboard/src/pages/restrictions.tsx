import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useParams } from 'react-router'
import { $api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { traffic } from '../traffic.ts'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { CopyId } from '../ui/copy_id.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Empty } from '../ui/states.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { ChangeList } from './audit/list.tsx'
import { RestrictionCard } from './restrictions/card.tsx'
import type { Restriction } from './restrictions/change.ts'
import { CreateRestriction } from './restrictions/create.tsx'
import { RestrictionMenu } from './restrictions/menu.tsx'
import { RestrictionTable } from './restrictions/table.tsx'

export function Restrictions() {
  const { id } = useParams()
  const restrictions = useQuery(queries.restrictions())
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const [isCreating, setCreating] = useState(false)
  useOpenOnArrival(() => setCreating(true))
  return (
    <>
      {id ? (
        <DetailHead key={id} id={id} restrictions={restrictions.data} isAdmin={isAdmin} />
      ) : (
        <PageHeader key="list" title="IP restrictions" summary={restrictions.data && sentenceOf(restrictions.data)}>
          {isAdmin && (
            <Button kind="primary" icon="plus" onPress={() => setCreating(true)}>
              Create restriction
            </Button>
          )}
        </PageHeader>
      )}
      <Loaded query={restrictions} lines={8}>
        {(all) =>
          id ? <Detail id={id} restrictions={all} isAdmin={isAdmin} /> : <List restrictions={all} isAdmin={isAdmin} />
        }
      </Loaded>
      {isCreating && <CreateRestriction onClose={() => setCreating(false)} />}
    </>
  )
}

function sentenceOf(restrictions: readonly Restriction[]): string {
  if (restrictions.length === 0)
    return 'A restriction admits only the addresses that its policies allow. Start with warnings, review what it would refuse, then enforce it.'
  const enforced = restrictions.filter((restriction) => restriction.enforced).length
  const warning = restrictions.length - enforced
  return `${enforced} enforced, ${warning} only ${warning === 1 ? 'warns' : 'warn'}. An address must pass every enforced restriction of its traffic.`
}

type DetailProps = { id: string; restrictions: readonly Restriction[] | undefined; isAdmin: boolean }

function DetailHead({ id, restrictions, isAdmin }: DetailProps) {
  const restriction = restrictions?.find((candidate) => candidate.id === id)
  return (
    <PageHeader
      title={restriction?.description ?? 'IP restriction'}
      parent={{ to: '/restrictions', name: 'IP restrictions' }}
      status={
        restriction &&
        (restriction.enforced ? <Badge tone="allowed">Enforced</Badge> : <Badge tone="warned">Warns only</Badge>)
      }
      meta={
        restriction && (
          <>
            <span>
              {traffic[restriction.type].title}: {traffic[restriction.type].what}
            </span>
            <CopyId id={id} />
          </>
        )
      }
    >
      {isAdmin && restriction && <RestrictionMenu restriction={restriction} className="button plain icon-only" />}
    </PageHeader>
  )
}

function Detail({ id, restrictions, isAdmin }: DetailProps & { restrictions: readonly Restriction[] }) {
  const restriction = restrictions.find((candidate) => candidate.id === id)
  if (!restriction)
    return (
      <div className="frame">
        <Empty title="This restriction no longer exists." />
      </div>
    )
  return (
    <Tabs
      label={restriction.description ?? id}
      tabs={[
        { id: 'mode', title: 'Mode', children: <RestrictionCard restriction={restriction} isAdmin={isAdmin} /> },
        ...(isAdmin ? [{ id: 'history', title: 'History', children: <ChangeList resourceId={id} /> }] : []),
      ]}
    />
  )
}

function List({ restrictions, isAdmin }: Omit<DetailProps, 'id'> & { restrictions: readonly Restriction[] }) {
  if (restrictions.length === 0)
    return (
      <div className="frame">
        <Empty title="No restrictions">Every address can reach everything that edges do not restrict themselves.</Empty>
      </div>
    )
  return <RestrictionTable restrictions={restrictions} isAdmin={isAdmin} />
}
