import { useState } from 'react'
import { MoreMenu } from '../../ui/more_menu.tsx'
import type { Restriction } from './change.ts'
import { DeleteRestriction } from './delete.tsx'
import { EditRestriction } from './edit.tsx'

/** Actions of admins, for the row and the page of a restriction. */
export function RestrictionMenu({ restriction, className }: { restriction: Restriction; className?: string }) {
  const [open, setOpen] = useState<'edit' | 'delete'>()
  const close = () => setOpen(undefined)
  return (
    <>
      <MoreMenu
        label={`Actions for ${restriction.description ?? restriction.id}`}
        className={className}
        groups={() => [
          {
            entries: [
              { label: 'Edit…', icon: 'edit', onAction: () => setOpen('edit') },
              { label: 'Delete restriction…', icon: 'trash', isDanger: true, onAction: () => setOpen('delete') },
            ],
          },
        ]}
      />
      {open === 'edit' && <EditRestriction restriction={restriction} onClose={close} />}
      {open === 'delete' && <DeleteRestriction restriction={restriction} onClose={close} />}
    </>
  )
}
