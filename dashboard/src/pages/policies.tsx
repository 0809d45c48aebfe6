import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useNavigate, useParams } from 'react-router'
import { answerOf, api } from '../api/client.ts'
import { queries, useRefresh } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { Field } from '../ui/field.tsx'
import { FormDialog } from '../ui/form_dialog.tsx'
import { Loaded } from '../ui/loading.tsx'
import { Name } from '../ui/name.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Ago } from '../ui/time.tsx'
import { useDraft } from '../ui/use_draft.ts'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { PolicyDetail } from './policies/detail.tsx'
import { Uses } from './policies/uses.tsx'

export function Policies() {
  const { id } = useParams()
  return id ? <PolicyDetail key={id} id={id} /> : <PolicyList />
}

function PolicyList() {
  const policies = useQuery(queries.policies())
  const [isCreating, setCreating] = useState(false)
  useOpenOnArrival(() => setCreating(true))
  return (
    <>
      <PageHeader
        title="IP policies"
        summary="A policy is a named list of allowed and denied ranges. It takes effect through the restrictions, edges and routes that use it. A deny overrides any allow, and an address that no rule allows is refused."
      />
      <section className="card" aria-label="IP policies">
        <header>
          <h2>Policies</h2>
          <Button kind="primary" icon="plus" onPress={() => setCreating(true)}>
            Create policy
          </Button>
        </header>
        <Loaded query={policies} lines={6}>
          {(rows) =>
            rows.length === 0 ? (
              <p className="empty">No policies yet. Create one and add the addresses of your office.</p>
            ) : (
              <table className="stack">
                <thead>
                  <tr>
                    <th scope="col">Policy</th>
                    <th scope="col">Used by</th>
                    <th scope="col">Created</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((policy) => (
                    <tr key={policy.id}>
                      <th scope="row">
                        <Link to={`/policies/${policy.id}`}>
                          <Name id={policy.id} text={policy.description} />
                        </Link>
                      </th>
                      <td data-label="Used by">
                        <Uses policyId={policy.id} />
                      </td>
                      <td data-label="Created">
                        <Ago at={policy.created_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )
          }
        </Loaded>
      </section>
      {isCreating && <CreatePolicy onClose={() => setCreating(false)} />}
    </>
  )
}

function CreatePolicy({ onClose }: { onClose: () => void }) {
  const { values, set, isDirty } = useDraft({ description: '' })
  const navigate = useNavigate()
  const refresh = useRefresh()
  return (
    <FormDialog
      title="Create IP policy"
      action="Create IP policy"
      isDirty={isDirty}
      save={() => answerOf(api.POST('/ip_policies', { body: values }))}
      onSaved={async ({ id }) => {
        await refresh('/ip_policies')
        navigate(`/policies/${id}`)
      }}
      onClose={onClose}
    >
      <Field
        label="Description"
        name="description"
        autoFocus
        value={values.description}
        onChange={set('description')}
        placeholder="offices"
      />
    </FormDialog>
  )
}
