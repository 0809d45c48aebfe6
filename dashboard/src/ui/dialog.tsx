import type { ReactNode } from 'react'
import { Dialog as AriaDialog, Heading, Modal, ModalOverlay } from 'react-aria-components'
import { Button } from './button.tsx'

type Props = {
  title: string
  onClose: () => void
  children: ReactNode
  /** For a question that must not go away by a click beside it, such as a token that is shown once. */
  mustAnswer?: boolean
  wide?: boolean
  /** As high as the window allows, and it scrolls inside: what is read while it is open moves no button. */
  tall?: boolean
}

/** Open while it is rendered: the component that opens it decides with its own state. */
export function Dialog({ title, onClose, children, mustAnswer, wide, tall }: Props) {
  return (
    <ModalOverlay
      className="overlay"
      isOpen
      isDismissable={!mustAnswer}
      isKeyboardDismissDisabled={mustAnswer}
      onOpenChange={(isOpen) => !isOpen && onClose()}
    >
      <Modal className={`modal${wide ? ' wide' : ''}${tall ? ' tall' : ''}`}>
        <AriaDialog className="dialog" role={mustAnswer ? 'alertdialog' : 'dialog'}>
          <header>
            <Heading slot="title">{title}</Heading>
            {!mustAnswer && (
              <Button kind="quiet" icon="close" iconOnly onPress={onClose}>
                Close
              </Button>
            )}
          </header>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  )
}
