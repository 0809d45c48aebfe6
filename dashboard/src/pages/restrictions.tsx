import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useParams } from 'react-router'
import { $api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { traffic, trafficTypes } from '../traffic.ts'
import { Button } from '../ui/button.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { RestrictionCard } from './restrictions/card.tsx'
import { CreateRestriction } from './restrictions/create.tsx'

export function Restrictions() {
  const { id } = useParams()
  const restrictions = useQuery(queries.restrictions())
  const caller = $api.useQuery('get', '/caller').data
  const [isCreating, setCreating] = useState(false)
  useOpenOnArrival(() => setCreating(true))
  const isAdmin = caller?.role === 'admin'
  return (
    <>
      <PageHeader
        title="IP restrictions"
        summary="A restriction admits only the addresses that its policies allow. Start with warnings, review what it would refuse, then enforce it."
      >
        {isAdmin && !id && (
          <Button kind="primary" icon="plus" onPress={() => setCreating(true)}>
            Create restriction
          </Button>
        )}
      </PageHeader>
      {id && <Link to="/restrictions">All restrictions</Link>}
      <Loaded query={restrictions} lines={8}>
        {(all) => {
          const shown = id ? all.filter((restriction) => restriction.id === id) : all
          if (shown.length === 0)
            return (
              <p className="card empty">
                {id ? 'This restriction no longer exists.' : 'No restrictions. Every address can reach everything.'}
              </p>
            )
          return (
            <>
              {trafficTypes
                .filter((type) => shown.some((restriction) => restriction.type === type))
                .map((type) => (
                  <section key={type} className="group" aria-labelledby={`type-${type}`}>
                    <h2 id={`type-${type}`}>
                      {traffic[type].title} <span className="soft">{traffic[type].what}</span>
                    </h2>
                    {shown
                      .filter((restriction) => restriction.type === type)
                      .map((restriction) => (
                        <RestrictionCard key={restriction.id} restriction={restriction} isAdmin={isAdmin} />
                      ))}
                  </section>
                ))}
            </>
          )
        }}
      </Loaded>
      {isCreating && <CreateRestriction onClose={() => setCreating(false)} />}
    </>
  )
}
