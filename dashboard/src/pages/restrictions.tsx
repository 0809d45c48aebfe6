import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useParams } from 'react-router'
import { $api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { traffic, trafficTypes } from '../traffic.ts'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Section } from '../ui/section.tsx'
import { Empty } from '../ui/states.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { RestrictionCard } from './restrictions/card.tsx'
import type { Restriction } from './restrictions/change.ts'
import { CreateRestriction } from './restrictions/create.tsx'

export function Restrictions() {
  const { id } = useParams()
  const restrictions = useQuery(queries.restrictions())
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const [isCreating, setCreating] = useState(false)
  useOpenOnArrival(() => setCreating(true))
  return (
    <>
      {id ? (
        <DetailHead key={id} id={id} restrictions={restrictions.data} />
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
        {(all) => (
          <Shown all={id ? all.filter((restriction) => restriction.id === id) : all} id={id} isAdmin={isAdmin} />
        )}
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

function DetailHead({ id, restrictions }: { id: string; restrictions: readonly Restriction[] | undefined }) {
  const restriction = restrictions?.find((candidate) => candidate.id === id)
  return (
    <PageHeader
      title={restriction?.description ?? 'IP restriction'}
      parent={{ to: '/restrictions', name: 'IP restrictions' }}
      status={
        restriction &&
        (restriction.enforced ? <Badge tone="allowed">Enforced</Badge> : <Badge tone="warned">Warns only</Badge>)
      }
    />
  )
}

function Shown({ all, id, isAdmin }: { all: readonly Restriction[]; id: string | undefined; isAdmin: boolean }) {
  if (all.length === 0)
    return (
      <div className="frame">
        {id ? (
          <Empty title="This restriction no longer exists." />
        ) : (
          <Empty title="No restrictions">
            Every address can reach everything that edges do not restrict themselves.
          </Empty>
        )}
      </div>
    )
  return trafficTypes
    .filter((type) => all.some((restriction) => restriction.type === type))
    .map((type) => (
      <Section key={type} title={traffic[type].title} note={traffic[type].what}>
        {all
          .filter((restriction) => restriction.type === type)
          .map((restriction) => (
            <RestrictionCard key={restriction.id} restriction={restriction} isAdmin={isAdmin} />
          ))}
      </Section>
    ))
}
