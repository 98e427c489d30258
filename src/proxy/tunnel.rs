//! Upgraded connections: bytes both ways, unread, for as long as both sides want.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};

use super::{downstream::Broken, headers::Rewrite, payload::Payload, pool::Carrier, relay::Held, reply::Reply};

/// Asks upstream for the upgrade and joins both sides if it agrees. Any other answer is passed on.
pub async fn run(agent: OnUpgrade, payload: Payload, mut reply: Reply) -> Result<(), Broken> {
    let mut answer = match reply.ask(payload, Rewrite::default()).await {
        Ok(answer) => answer,
        Err(error) => return reply.refuse(error).await,
    };
    if answer.head.status != http::StatusCode::SWITCHING_PROTOCOLS {
        return reply.pass(Held::new(answer)).await;
    }
    reply.begin(&mut answer.head);
    let Some(Carrier::One(link)) = answer.body.into_carrier() else { return Err(Broken) };
    let Some((upstream, said)) = link.into_upgraded() else { return Err(Broken) };
    reply.line.end = "upgraded";
    let proxy = reply.proxy.clone();
    drop(reply);
    proxy.tunnels.spawn(async move {
        let Ok(agent) = agent.await else { return };
        let (mut agent, mut upstream) = (TokioIo::new(agent), upstream);
        if agent.write_all(&said).await.is_ok() {
            join(&mut agent, &mut upstream).await;
        }
    });
    Ok(())
}

async fn join(agent: &mut (impl AsyncRead + AsyncWrite + Unpin), upstream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    if let Err(error) = copy_bidirectional(agent, upstream).await {
        tracing::debug!(cause = %error, "a tunnel broke");
    }
}
