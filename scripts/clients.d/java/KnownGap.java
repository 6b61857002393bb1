import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.lang.reflect.Method;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.InvocationInterceptor;
import org.junit.jupiter.api.extension.ReflectiveInvocationContext;

/**
 * Marks a test that fails on `ermined` because of something that it does not do yet: it counts as
 * aborted if it fails, and fails if it passes. On another server the mark has no effect.
 */
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(KnownGap.Check.class)
@interface KnownGap {
  String value();

  class Check implements InvocationInterceptor {
    @Override
    public void interceptTestMethod(
        Invocation<Void> test,
        ReflectiveInvocationContext<Method> method,
        ExtensionContext context)
        throws Throwable {
      if (!Server.isErmined()) {
        test.proceed();
        return;
      }
      String gap = method.getExecutable().getAnnotation(KnownGap.class).value();
      String name = method.getExecutable().getName();
      try {
        test.proceed();
      } catch (Throwable failure) {
        System.out.println("known gap: " + name + ": " + gap);
        Assumptions.abort("known gap");
      }
      Assertions.fail(name + " passes: its mark is to be removed: known gap: " + gap);
    }
  }
}
